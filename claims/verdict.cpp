// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>

#include "claims/profile_record.hpp"

namespace capstone::claims {
namespace {

constexpr const char* confirmed = "CONFIRMED";
constexpr const char* refuted = "REFUTED";
constexpr const char* inconclusive = "INCONCLUSIVE";
constexpr const char* invalid = "INVALID";
constexpr double drift = 0.03;       // of the floor between calibration and profile, e.g. by clocks
constexpr double least_of_floor = 0.9; // 0.988 is the least that an honest kernel took
constexpr double most_percent = 102; // the profiler does not clamp; beyond, the counter is wrong

constexpr const char* dram_pct = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr const char* sm_pct = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr const char* tensor_pct = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";
constexpr const char* read_sectors = "lts__t_sectors_srcunit_tex_op_read.sum";
constexpr const char* write_sectors = "lts__t_sectors_srcunit_tex_op_write.sum";
constexpr const char* local_load = "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum";
constexpr const char* local_store = "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum";

int rank(const std::string& verdict) {
  return verdict == invalid ? 3 : verdict == refuted ? 2 : verdict == inconclusive ? 1 : 0;
}

const counter_values* values_of(const profiled& seen, const std::string& metric) {
  for (const counter_values& v : seen.counters)
    if (v.metric == metric) return &v;
  return nullptr;
}

/// NaN where the metric was not read.
double observed(const profiled& seen, const std::string& metric) {
  const counter_values* v = values_of(seen, metric);
  return v == nullptr || v->values.empty() ? std::nan("") : median(v->values);
}

claim_verdict judge_counter(const counter_prediction& c, const profiled& seen) {
  claim_verdict v{c.metric, inconclusive, 0, c.low, c.high, ""};
  const counter_values* is = values_of(seen, c.metric);
  if (is == nullptr || is->values.empty()) {
    // The profile command records every metric that was predicted, read or not; one that is not in
    // the record was taken out of it.
    v.verdict = invalid;
    v.why = "the metric is predicted and not in the profile";
    return v;
  }
  if (std::any_of(is->values.begin(), is->values.end(), [](double x) { return std::isnan(x); })) {
    v.why = "the profiler gave no number: a missing counter is no evidence";
    return v;
  }
  if (is->unit != c.unit) {
    v.verdict = invalid;
    v.why = "the unit is '" + is->unit + "'; expected '" + c.unit + "'";
    return v;
  }
  const auto [least, most] = std::minmax_element(is->values.begin(), is->values.end());
  v.observed = recorded(median(is->values));
  if (c.unit == "%" && *most > most_percent) {
    v.why = "above 100 %: the counter cannot be trusted";
    return v;
  }
  const bool inside = v.observed >= c.low && v.observed <= c.high;
  if (inside && c.high > c.low && *most - *least > (c.high - c.low) / 2) {
    v.why = "the launches spread over more than half of the interval";
    return v;
  }
  v.verdict = inside ? confirmed : refuted;
  if (!inside && c.value > 0) v.why = format_double(recorded(v.observed / c.value)) + " of the predicted value";
  if (!inside && c.value == 0) v.why = "none was predicted";
  return v;
}

claim_verdict judge_identity(const prediction& p, const profiled& seen) {
  claim_verdict v{"identity", invalid, 0, 0, 0, ""};
  const predicted_launch& is = p.launch;
  v.observed = double(seen.seen.kernels);
  v.low = v.high = double(is.kernels);
  if (seen.seen.kernels != is.kernels)
    v.why = "a call launched " + std::to_string(seen.seen.kernels) + " kernels; predicted was " + std::to_string(is.kernels);
  else if (seen.seen.symbols != std::vector{is.symbol})
    v.why = "the kernel is " + (seen.seen.symbols.empty() ? "none" : seen.seen.symbols.front()) + "; predicted was " + is.symbol;
  else if (seen.seen.streams != 0)
    v.why = "work ran on another stream than the one that was passed";
  else if (seen.seen.grid != is.grid || seen.seen.block != is.block)
    v.why = "grid and block are " + std::to_string(seen.seen.grid) + " and " + std::to_string(seen.seen.block) + "; predicted were " +
            std::to_string(is.grid) + " and " + std::to_string(is.block);
  else if (const double registers = observed(seen, "launch__registers_per_thread"); registers == registers && registers != double(is.registers))
    v.why = "a thread has " + format_double(registers) + " registers; predicted were " + std::to_string(is.registers);
  else
    v.verdict = confirmed;
  return v;
}

claim_verdict judge_time(const prediction& p, const profiled& seen) {
  claim_verdict v{"time", inconclusive, seen.time_us.median, p.low_us, p.high_us, ""};
  const double t = seen.time_us.median;
  if (!(t > 0)) {
    v.why = "no time was measured";
  } else if (t < p.physics_us) {
    v.verdict = invalid;
    v.why = "faster than the bytes or the arithmetic allow (" + format_double(p.physics_us) + " us)";
  } else if (seen.time_us.high < least_of_floor * seen.floor_us.low) {
    v.verdict = invalid;
    v.why = "faster than this session's floor allows: at most " + format_double(seen.time_us.high) + " us, where a plain kernel that moves these bytes takes at least " +
            format_double(seen.floor_us.low) + " us; one of the two was not measured as it was said to be";
  } else if (t >= p.low_us && t <= p.high_us) {
    v.verdict = confirmed;
  } else {
    v.verdict = refuted;
    v.why = format_double(recorded(t / p.expected_us)) + " of the expected time";
  }
  return v;
}

std::string factor(double f) { return format_double(std::round(f * 100) / 100); }

/// Which rival story the counters fit, and what to do next.
void tell(const prediction& p, profiled& seen) {
  const auto failed = [&](const std::string& claim) {
    return std::any_of(seen.verdicts.begin(), seen.verdicts.end(),
                       [&](const claim_verdict& v) { return v.claim == claim && v.verdict == refuted; });
  };
  const auto ratio = [&](const std::string& metric) {
    const counter_prediction* c = p.find(metric);
    return c == nullptr || c->value <= 0 ? 1.0 : observed(seen, metric) / c->value;
  };
  const double tensor = observed(seen, tensor_pct), dram = observed(seen, dram_pct), sm = observed(seen, sm_pct);
  const double reads = std::max(ratio(read_sectors), ratio("dram__bytes_read.sum")), writes = ratio(write_sectors);
  if (failed(local_load) || failed(local_store)) {
    seen.story = "spilled: local memory moves " + format_double(recorded(observed(seen, local_load) + observed(seen, local_store))) + " bytes";
    seen.next = "give a thread more registers or less to hold, and look at the frozen config with `autotune inspect`";
  } else if (failed(tensor_pct) && tensor >= 40 && dram < 50) {
    seen.story = "the tensor pipe binds; arithmetic missing from the model";
    seen.next = "put the arithmetic into the spec's work model and supersede the prediction";
  } else if (failed(write_sectors) && writes < 0.5) {
    seen.story = "bytes too few: " + factor(writes) + " of the predicted writes reached L2; outputs are not written";
    seen.next = "run `claims verify`; outputs are poisoned before it";
  } else if ((failed(read_sectors) || failed("dram__bytes_read.sum")) && reads >= 1.1) {
    seen.story = "bytes too many, by a factor of " + factor(reads) + " in reads";
    for (const rival_story& r : p.rivals)
      if (r.name == "reads twice" && reads > 1.6) seen.story += "; as if the inputs were read twice";
    seen.next = "find the second read (a row that is not held, an unfused pass) or put it into the traffic model";
  } else if (failed(write_sectors) && writes >= 1.1) {
    seen.story = "bytes too many, by a factor of " + factor(writes) + " in writes";
    seen.next = "find the extra write: partial sectors, an intermediate result, an output written twice";
  } else if (failed("dram__bytes_read.sum")) {
    seen.story = "bytes too few: " + factor(ratio("dram__bytes_read.sum")) + " of the predicted reads came from memory; the rest was in L2";
    seen.next = "state the cache state, or model the reuse";
  } else if (failed(dram_pct) && dram < 40 && sm < 40) {
    seen.story = "both memory and SMs are mostly idle: latency or launch binds";
    seen.next = "look at the timeline, and at waves and occupancy in the prediction";
  } else if (failed("time")) {
    const bool longer = seen.time_us.median > p.high_us;
    const double moved = p.expected_us > 0 && seen.floor_us.median > 0 ? seen.time_us.median / seen.floor_us.median : 0;
    seen.story = std::string("the bytes are as predicted, the time is ") + (longer ? "longer" : "shorter") + " (" + factor(moved) + " of this session's floor)";
    seen.next = longer ? "look at what keeps memory from being busy: tail, occupancy, dependent loads" : "measure the ceilings again, or narrow what the model adds to the floor";
  } else {
    seen.story = "no rival story of the prediction fits";
    seen.next = "mend the model of the metrics refuted, and supersede the prediction";
  }
}

}  // namespace

void judge(const prediction& p, profiled& seen) {
  seen.verdicts.clear();
  seen.story.clear();
  seen.next.clear();
  for (const run_fault& f : seen.faults) seen.verdicts.push_back({"run", f.kind, 0, 0, 0, f.sentence});
  const bool nothing_read = std::all_of(seen.counters.begin(), seen.counters.end(), [](const counter_values& v) { return v.values.empty(); });
  if (!(nothing_read && !seen.faults.empty())) {  // else the faults say all
    seen.verdicts.push_back(judge_identity(p, seen));
    for (const counter_prediction& c : p.counters) seen.verdicts.push_back(judge_counter(c, seen));
    seen.verdicts.push_back(judge_time(p, seen));
  }
  if (seen.launches < 5 && !nothing_read)
    seen.verdicts.push_back({"launches", invalid, double(seen.launches), 5, 0, "at least five launches are needed"});
  seen.verdict = seen.verdicts.empty() ? inconclusive : confirmed;
  for (const claim_verdict& v : seen.verdicts)
    if (rank(v.verdict) > rank(seen.verdict)) seen.verdict = v.verdict;
  if (seen.verdict == refuted) {
    tell(p, seen);
  } else if (seen.verdict == invalid || seen.verdict == inconclusive) {
    for (const claim_verdict& v : seen.verdicts)
      if (v.verdict == seen.verdict) {
        seen.story = v.claim + ": " + v.why;
        break;
      }
    seen.next = seen.verdict == invalid ? "nothing is claimed from this profile" : "profile again once the reason is gone";
  }
}

}  // namespace capstone::claims
