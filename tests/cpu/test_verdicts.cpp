// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// From a prediction and what a profile saw to verdicts: every row of the truth table, and what a
// cheating kernel shows as data. The ceilings are made up and round, so that what the model makes of
// them can be checked by hand; test_liars.cpp judges what an H200 recorded.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "claims/model.hpp"
#include "claims/profile_record.hpp"
#include "tests/cpu/faulty_scale.hpp"
#include "tests/cpu/prediction_example.hpp"

using namespace capstone::claims;
using capstone::tests::made_up_digest;
using capstone::tests::fake::scratch_tree;

namespace {

constexpr std::int64_t rows = 16384, one_way = rows * 4096 * 2, both_ways = 2 * one_way;  // bytes
constexpr double fixed_us = 1.7, bytes_per_us = 4.3e6, dram_peak = 4.8e6, residue = 25e6;

constexpr const char* dram_pct = "dram__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr const char* sm_pct = "sm__throughput.avg.pct_of_peak_sustained_elapsed";
constexpr const char* tensor_pct =
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";
constexpr const char* dram_bytes = "dram__bytes.sum";
constexpr const char* dram_reads = "dram__bytes_read.sum";
constexpr const char* dram_writes = "dram__bytes_write.sum";
constexpr const char* l2_reads = "lts__t_sectors_srcunit_tex_op_read.sum";
constexpr const char* l2_writes = "lts__t_sectors_srcunit_tex_op_write.sum";
constexpr const char* local_loads = "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum";
constexpr const char* local_stores = "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum";
constexpr const char* instructions = "sm__inst_executed.sum";

/// A GPU like an H200: copies take 1.7 us and 4300 GB/s, and leave 25 MB of what they write in L2.
ceilings made_up_ceilings() {
  ceilings c;
  c.device = capstone::tests::made_up_prediction().device;
  c.sm_mhz = {1965, 1980, 1980};
  c.empty_kernel_us = 0.7;
  c.chain_load_us = 0.4;
  c.chain_reduce_us = 0.2;
  const auto us = [](double bytes) { return fixed_us + bytes / bytes_per_us; };
  counter_ceilings k;
  for (std::int64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 2) {
    const double way = double(bytes) / 2, written = std::max(0.0, way - residue);
    c.floors.push_back({1, 1, bytes, us(double(bytes)), us(double(bytes)), us(double(bytes)), "u1"});
    counted_copy copy{1, 1, bytes / 2, bytes / 2, "u1", way, 0, written, 0, 0, 26, us(double(bytes))};
    copy.dram_pct = 100 * (way + written) / (copy.duration_us * dram_peak);
    k.copies.push_back(copy);
  }
  c.fits = {{1, 1, fixed_us, bytes_per_us / 1e3, 0, std::vector<double>(c.floors.size(), 0.0)}};
  c.l2_gb_per_s = 5500;
  c.fma_tflops = {60, 60, 60};
  c.special_gops = {4100, 4100, 4100};
  c.tensor_bf16_tflops = {620, 620, 620};
  k.residue_bytes = {residue, residue, residue};
  k.tensor_pct = 98;
  c.counters = k;
  return c;
}

/// Of a kernel that reads and writes 134 MB, a block of 256 threads a row of 4096 bf16.
prediction predict(const std::function<void(model_inputs&)>& change = {}) {
  static const ceilings measured = made_up_ceilings();
  machine_code code;
  code.symbol = "honest", code.registers = 32, code.static_smem = 32, code.straight = 114;
  const launch_identity launch{"honest", unsigned(rows), 256, 1, 0, true};
  const traffic_model traffic{one_way, one_way, 1, 1};
  const work_model work{3.0 * double(rows) * 4096, double(rows) * 256, 0};
  model_inputs in{measured, traffic, work, launch, code, {}, rows, false};
  in.rivals.emplace_back("unfused", traffic_model{2 * one_way, one_way, 1, 1});
  if (change) change(in);
  prediction p = capstone::tests::made_up_prediction();
  p.terms.clear(), p.counters.clear(), p.rivals.clear();
  apply_model(in, p);
  return p;
}

/// Tensor cores multiply 512 times what was loaded; `counted`: the model knows it.
prediction predict_tensor(bool counted) {
  return predict([&](model_inputs& in) {
    in.work = {0, 0, 3e11};
    in.launch.single_pass = false;  // a loop
    in.memory_only = !counted;
  });
}

/// Five launches in which all is as it was predicted.
profiled profile_of(const prediction& p) {
  profiled seen;
  seen.kernel = p.kernel, seen.dtype = p.dtype, seen.what = p.what, seen.config = p.config;
  seen.prediction_path = "predictions/fake.bf16/rows=64,cols=96.1.yaml";
  seen.prediction_sha256 = made_up_digest('a');
  seen.core_passes = 1, seen.pipes_passes = 8, seen.launches = 5, seen.l2 = "cold";
  seen.seen = {{p.launch.symbol}, 1, p.launch.grid, p.launch.block, 0};
  seen.time_us = {p.expected_us, p.expected_us, p.expected_us};
  seen.floor_us = {p.expected_us, p.expected_us, p.expected_us};
  for (const counter_prediction& c : p.counters)
    seen.counters.push_back({c.metric, c.unit, std::vector<double>(5, c.value)});
  const double registers = double(p.launch.registers);
  seen.counters.push_back({"launch__registers_per_thread", "", std::vector<double>(5, registers)});
  return seen;
}

counter_values& counter(profiled& seen, const std::string& metric) {
  const auto found = std::find_if(seen.counters.begin(), seen.counters.end(),
                                  [&](const counter_values& v) { return v.metric == metric; });
  REQUIRE_MESSAGE(found != seen.counters.end(), metric);
  return *found;
}

void set(profiled& seen, const std::string& metric, double value) {
  counter(seen, metric).values.assign(5, value);
}

void scale(profiled& seen, const std::string& metric, double factor) {
  for (double& value : counter(seen, metric).values) value *= factor;
}

/// The one verdict on a claim.
const claim_verdict& on(const profiled& seen, const std::string& claim) {
  const auto is = [&](const claim_verdict& v) { return v.claim == claim; };
  REQUIRE_MESSAGE(std::count_if(seen.verdicts.begin(), seen.verdicts.end(), is) == 1, claim);
  return *std::find_if(seen.verdicts.begin(), seen.verdicts.end(), is);
}

/// The claims that are not CONFIRMED, in the order of the record: "time REFUTED, ...".
std::string failed(const profiled& seen) {
  std::string text;
  for (const claim_verdict& v : seen.verdicts)
    if (v.verdict != "CONFIRMED") text += (text.empty() ? "" : ", ") + v.claim + " " + v.verdict;
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The honest kernel's profile with one thing changed, judged.
profiled judged(const std::function<void(profiled&)>& change) {
  const prediction p = predict();
  profiled seen = profile_of(p);
  change(seen);
  judge(p, seen);
  return seen;
}

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

/// What a lie looks like in a profile, and what must be said of it.
struct lie {
  std::string name;
  std::function<void(profiled&)> show;
  std::string claim, verdict, why;  ///< the named check: its claim, its verdict, part of its reason
  std::string whole, story;         ///< the whole's verdict, and part of its story
};

const std::vector<lie>& lies() {
  static const std::vector<lie> all = {
      {"writes_nothing",
       [](profiled& s) {
         set(s, l2_writes, 0);
         set(s, "dram__bytes_write.sum", 0);
         set(s, dram_bytes, double(one_way));
       },
       l2_writes, "REFUTED", "0 of the predicted value", "REFUTED",
       "bytes too few: 0 of the predicted writes reached L2"},
      {"writes_nothing, and is that fast",
       [](profiled& s) {
         set(s, l2_writes, 0);
         s.time_us = {31, 31, 31};
       },
       "time", "INVALID", "faster than the bytes", "INVALID", "time: faster than the bytes"},
      {"spills",
       [](profiled& s) {  // one access of a thread's 16 elements each way
         set(s, local_loads, 2147483648.0);
         set(s, local_stores, 2147483648.0);
         scale(s, l2_writes, 16);
         scale(s, l2_reads, 2);
       },
       local_stores, "REFUTED", "none was predicted", "REFUTED",
       "spilled: local memory moves 4294967296 bytes"},
      {"spills one register",
       [](profiled& s) {
         set(s, local_loads, 128);
       },
       local_loads, "REFUTED", "none was predicted", "REFUTED",
       "spilled: local memory moves 128 bytes"},
      {"reads_twice", [](profiled& s) { scale(s, l2_reads, 2); }, l2_reads, "REFUTED",
       "2 of the predicted value", "REFUTED",
       "bytes too many, by a factor of 2 in reads; as if the inputs were read twice"},
      {"low_precision",
       [](profiled& s) {
         s.faults = {{"INVALID", "the output is wrong under the profiler: output y"}};
       },
       "run", "INVALID", "the output is wrong", "INVALID", "run: the output is wrong"},
      {"unfused",
       [](profiled& s) {
         s.seen.kernels = 2;
         s.seen.symbols = {"sums", "scale"};
         scale(s, l2_reads, 2);
       },
       "identity", "INVALID", "a call launched 2 kernels; predicted was 1", "INVALID",
       "identity: a call launched 2 kernels"},
      {"library", [](profiled& s) { s.seen.symbols = {"_ZN3cub6kernelEv"}; }, "identity", "INVALID",
       "the kernel is _ZN3cub6kernelEv; predicted was honest", "INVALID", "identity: the kernel is"},
      {"two kernels in turn", [](profiled& s) { s.seen.symbols = {"honest", "other"}; }, "identity",
       "INVALID", "predicted was honest", "INVALID", "identity: the kernel is"},
      {"other_stream", [](profiled& s) { s.seen.streams = 5; }, "identity", "INVALID",
       "another stream than the one that was passed", "INVALID", "identity: work ran on another"},
      {"another grid", [](profiled& s) { s.seen.grid = 132; }, "identity", "INVALID",
       "grid and block are 132 and 256; predicted were 16384 and 256", "INVALID", "identity: grid"},
      {"another block", [](profiled& s) { s.seen.block = 128; }, "identity", "INVALID",
       "grid and block are 16384 and 128; predicted were 16384 and 256", "INVALID",
       "identity: grid"},
      {"another compilation", [](profiled& s) { set(s, "launch__registers_per_thread", 40); },
       "identity", "INVALID", "a thread has 40 registers; predicted were 32", "INVALID",
       "identity: a thread has"},
      {"cached",
       [](profiled& s) {
         s.seen = {{}, 0, 0, 0, 0};
         for (counter_values& v : s.counters) v.values.assign(5, nan_value);
         s.time_us = {0.0003, 0.0003, 0.0003};
       },
       "identity", "INVALID", "a call launched 0 kernels; predicted was 1", "INVALID",
       "identity: a call launched 0 kernels"},
      {"tunes",
       [](profiled& s) {
         s.faults = {{"INVALID", "calls launched differing numbers of kernels: [2, 2, 2, 1, 1]"}};
         s.seen.kernels = 2;
       },
       "run", "INVALID", "differing numbers of kernels", "INVALID",
       "run: calls launched differing numbers"},
      {"L2-resident", [](profiled& s) { scale(s, dram_reads, 0.25); }, dram_reads, "REFUTED",
       "0.25 of the predicted value", "REFUTED",
       "bytes too few: 0.25 of the predicted reads came from memory"},
  };
  return all;
}

}  // namespace

// ---- What the verdicts rest on ------------------------------------------------------------------

TEST_CASE("verdicts: the prediction is what the ceilings give by hand") {
  const prediction p = predict();
  const double floor = fixed_us + double(both_ways) / bytes_per_us;  // 64.127 us
  const double waves = 16384.0 / (132 * 8), chain = (0.2 + 0.4 / 4) * 0.75 / waves;
  CHECK(p.expected_us == doctest::Approx(floor + chain).epsilon(1e-4));
  CHECK(p.physics_us == doctest::Approx(0.9 * floor).epsilon(1e-4));
  CHECK(p.low_us < p.expected_us);
  CHECK(p.low_us > p.physics_us);
  CHECK(p.high_us > p.expected_us);
  CHECK(p.high_us < 1.1 * p.expected_us);
  CHECK(p.binding == "dram");
  CHECK(p.second == "l2");  // 48.8 us
  REQUIRE(p.find(dram_reads) != nullptr);
  CHECK(p.find(dram_reads)->value == double(one_way));
  CHECK(p.find(dram_bytes)->value == doctest::Approx(double(both_ways) - residue).epsilon(1e-6));
  CHECK(p.find(l2_reads)->value == double(one_way) / 32);
  CHECK(p.find(l2_writes)->value == double(one_way) / 32);
  CHECK(p.find(local_loads)->high == 0);
  CHECK(p.find(instructions)->value == 16384.0 * 8 * 114);
  const double percent = 100 * (double(both_ways) - residue) / ((floor + chain) * dram_peak);
  CHECK(p.find(dram_pct)->value == doctest::Approx(percent).epsilon(0.002));
}

// ---- The truth table ----------------------------------------------------------------------------

TEST_CASE("verdicts: all as predicted is CONFIRMED, claim by claim, without a story") {
  const prediction p = predict();
  const profiled seen = judged([](profiled&) {});
  CHECK(seen.verdict == "CONFIRMED");
  CHECK(failed(seen) == "");
  CHECK(seen.story == "");
  CHECK(seen.next == "");
  CHECK(seen.verdicts.size() == p.counters.size() + 2);  // identity and time
  CHECK(on(seen, "identity").verdict == "CONFIRMED");
  CHECK(on(seen, "time").verdict == "CONFIRMED");
}

TEST_CASE("verdicts: each counter alone is confirmed on its bounds and refutes beyond them") {
  for (const counter_prediction& c : predict().counters) {
    CAPTURE(c.metric);
    for (const double bound : {c.low, c.high})
      CHECK(judged([&](profiled& s) { set(s, c.metric, bound); }).verdict == "CONFIRMED");
    if (c.unit != "%" || c.high < 100) {
      const double above = c.high + std::max(1.0, 1e-3 * c.high);
      const profiled seen = judged([&](profiled& s) { set(s, c.metric, above); });
      CHECK(failed(seen) == c.metric + " REFUTED");
      CHECK(seen.verdict == "REFUTED");
      CHECK(seen.story != "");
      CHECK(seen.next != "");
    }
    if (c.low > 0) {
      const profiled seen = judged([&](profiled& s) { set(s, c.metric, 0.999 * c.low); });
      CHECK(failed(seen) == c.metric + " REFUTED");
      CHECK(on(seen, c.metric).low == c.low);
      CHECK(on(seen, c.metric).high == c.high);
      CHECK(on(seen, c.metric).observed == doctest::Approx(0.999 * c.low).epsilon(1e-4));
    }
  }
}

TEST_CASE("verdicts: one launch without a number is INCONCLUSIVE, whatever the others say") {
  for (const counter_prediction& c : predict().counters) {
    CAPTURE(c.metric);
    const profiled one = judged([&](profiled& s) { counter(s, c.metric).values[3] = nan_value; });
    CHECK(failed(one) == c.metric + " INCONCLUSIVE");
    CHECK(has(on(one, c.metric).why, "a missing counter is no evidence"));
    CHECK(one.verdict == "INCONCLUSIVE");
    CHECK(one.story == c.metric + ": " + on(one, c.metric).why);
    const profiled far = judged([&](profiled& s) {  // not even a refutation
      counter(s, c.metric).values = {9e15, 9e15, nan_value, 9e15, 9e15};
    });
    CHECK(failed(far) == c.metric + " INCONCLUSIVE");
  }
}

TEST_CASE("verdicts: a predicted metric that is not in the profile is INVALID") {
  for (const counter_prediction& c : predict().counters) {
    CAPTURE(c.metric);
    const profiled gone = judged([&](profiled& s) {
      std::erase_if(s.counters, [&](const counter_values& v) { return v.metric == c.metric; });
    });
    CHECK(failed(gone) == c.metric + " INVALID");
    CHECK(gone.verdict == "INVALID");
    CHECK(has(on(gone, c.metric).why, "is predicted and not in the profile"));
    const profiled empty = judged([&](profiled& s) { counter(s, c.metric).values.clear(); });
    CHECK(failed(empty) == c.metric + " INVALID");
  }
  const profiled nothing = judged([](profiled& s) { s.counters.clear(); });
  CHECK(nothing.verdict == "INVALID");  // a profile of nothing is no pass
}

TEST_CASE("verdicts: another unit is INVALID, even with the right number") {
  const profiled seen = judged([](profiled& s) { counter(s, dram_bytes).unit = "Mbyte"; });
  CHECK(failed(seen) == std::string(dram_bytes) + " INVALID");
  CHECK(on(seen, dram_bytes).why == "the unit is 'Mbyte'; expected 'byte'");
  CHECK(judged([](profiled& s) { counter(s, l2_reads).unit = ""; }).verdict == "INVALID");
}

TEST_CASE("verdicts: a percentage above 102 is INCONCLUSIVE, one in five is enough") {
  const profiled seen = judged([](profiled& s) { counter(s, dram_pct).values[4] = 102.5; });
  CHECK(failed(seen) == std::string(dram_pct) + " INCONCLUSIVE");
  CHECK(has(on(seen, dram_pct).why, "above 100 %"));
  const profiled far = judged([](profiled& s) { set(s, sm_pct, 180); });  // and no refutation
  CHECK(failed(far) == std::string(sm_pct) + " INCONCLUSIVE");
  const profiled full = judged([](profiled& s) { set(s, sm_pct, 101); });  // the profiler's rounding
  CHECK(failed(full) == std::string(sm_pct) + " REFUTED");
  // Bytes know no hundred.
  CHECK(judged([](profiled& s) { counter(s, dram_reads).values[0] += 103; }).verdict == "CONFIRMED");
}

TEST_CASE("verdicts: launches that spread over more than half of the interval are INCONCLUSIVE") {
  const prediction p = predict();
  const counter_prediction& c = *p.find(dram_bytes);
  const double width = c.high - c.low;
  const auto spread = [&](double by) {
    return judged([&](profiled& s) { counter(s, dram_bytes).values[0] = c.value + by * width; });
  };
  CHECK(spread(0.45).verdict == "CONFIRMED");
  CHECK(failed(spread(0.55)) == std::string(dram_bytes) + " INCONCLUSIVE");
  CHECK(has(on(spread(-0.55), dram_bytes).why, "spread over more than half"));
  const profiled outside = judged([&](profiled& s) {  // no spread excuses a median outside
    counter(s, dram_bytes).values = {c.value, 2 * c.value, 2 * c.value, 2 * c.value, 3 * c.value};
  });
  CHECK(failed(outside) == std::string(dram_bytes) + " REFUTED");
}

TEST_CASE("verdicts: fewer than five launches are INVALID") {
  for (const std::int64_t launches : {0, 1, 4}) {
    const profiled seen = judged([&](profiled& s) { s.launches = launches; });
    CHECK(failed(seen) == "launches INVALID");
    CHECK(on(seen, "launches").observed == double(launches));
  }
  CHECK(judged([](profiled& s) { s.launches = 5; }).verdict == "CONFIRMED");
}

TEST_CASE("verdicts: the time is confirmed, refuted, impossible or not there") {
  const prediction p = predict();
  const auto time = [](double us) { return judged([&](profiled& s) { s.time_us.median = us; }); };
  CHECK(time(p.low_us).verdict == "CONFIRMED");
  CHECK(time(p.high_us).verdict == "CONFIRMED");
  CHECK(failed(time(p.high_us * 1.001)) == "time REFUTED");
  CHECK(failed(time(p.low_us * 0.999)) == "time REFUTED");
  CHECK(failed(time(p.physics_us * 1.001)) == "time REFUTED");
  CHECK(failed(time(p.physics_us * 0.999)) == "time INVALID");
  CHECK(has(time(p.physics_us * 0.999).story, "faster than the bytes or the arithmetic allow"));
  for (const double none : {0.0, -1.0, nan_value}) {
    CHECK(failed(time(none)) == "time INCONCLUSIVE");
    CHECK(has(on(time(none), "time").why, "no time was measured"));
  }
}

TEST_CASE("verdicts: a kernel faster than the session's floor is INVALID, whatever was predicted") {
  const prediction p = predict();
  const auto against = [&](double floor_low, double high) {  // by the expected time
    return judged([&](profiled& s) {
      s.floor_us = {1.02 * floor_low * p.expected_us, floor_low * p.expected_us,
                    1.05 * floor_low * p.expected_us};
      s.time_us = {p.expected_us, 0.99 * p.expected_us, high * p.expected_us};
    });
  };
  CHECK(against(1.11, 1).verdict == "CONFIRMED");
  CHECK(failed(against(1.12, 1)) == "time INVALID");
  CHECK(has(against(1.12, 1).story, "time: faster than this session's floor allows"));
  CHECK(against(1.12, 1.01).verdict == "CONFIRMED");  // the interval reaches what is possible
  CHECK(judged([](profiled& s) { s.floor_us = {}; }).verdict == "CONFIRMED");  // none was measured
}

TEST_CASE("verdicts: a fault of the run decides, and says why") {
  const profiled invalid = judged([](profiled& s) { s.faults = {{"INVALID", "not verified"}}; });
  CHECK(failed(invalid) == "run INVALID");
  CHECK(invalid.verdict == "INVALID");
  CHECK(invalid.story == "run: not verified");
  const profiled open = judged([](profiled& s) { s.faults = {{"INCONCLUSIVE", "2 passes"}}; });
  CHECK(open.verdict == "INCONCLUSIVE");
  CHECK(open.story == "run: 2 passes");
  // Where no counter was read the faults say all: nothing is counted as missing besides.
  const profiled no_tool = judged([](profiled& s) {
    s.counters.clear();
    s.seen = {};
    s.launches = 0;
    s.faults = {{"INCONCLUSIVE", "ncu was not found"}};
  });
  CHECK(failed(no_tool) == "run INCONCLUSIVE");
  CHECK(no_tool.verdicts.size() == 1);
}

TEST_CASE("verdicts: the worst is the whole's, INVALID before REFUTED before INCONCLUSIVE") {
  const auto refute = [](profiled& s) { scale(s, l2_reads, 2); };
  const auto blur = [](profiled& s) { counter(s, instructions).values[0] = nan_value; };
  const auto fault = [](profiled& s) { s.faults.push_back({"INVALID", "the output is wrong"}); };
  CHECK(judged([&](profiled& s) { refute(s), blur(s); }).verdict == "REFUTED");
  CHECK(judged([&](profiled& s) { blur(s), fault(s); }).verdict == "INVALID");
  const profiled all = judged([&](profiled& s) { refute(s), blur(s), fault(s); });
  CHECK(all.verdict == "INVALID");
  CHECK(all.story == "run: the output is wrong");  // the reason for INVALID, not a rival's story
  CHECK(has(failed(all), std::string(l2_reads) + " REFUTED"));  // and still on record
}

TEST_CASE("verdicts: nothing of an earlier judgement stays") {
  const prediction p = predict();
  profiled seen = profile_of(p);
  seen.verdicts = {{"time", "INVALID", 0, 0, 0, "old"}};
  seen.verdict = "INVALID", seen.story = "old", seen.next = "old";
  judge(p, seen);
  CHECK(seen.verdict == "CONFIRMED");
  CHECK(seen.story == "");
  CHECK(seen.next == "");
  CHECK(failed(seen) == "");
}

// ---- Kernels that cheat, as data ----------------------------------------------------------------

TEST_CASE("verdicts: every lie is caught by its named check, and tells its story") {
  for (const lie& l : lies()) {
    CAPTURE(l.name);
    const profiled seen = judged(l.show);
    CHECK(seen.verdict == l.whole);
    CHECK(on(seen, l.claim).verdict == l.verdict);
    CHECK_MESSAGE(has(on(seen, l.claim).why, l.why), on(seen, l.claim).why);
    CHECK_MESSAGE(has(seen.story, l.story), seen.story);
    CHECK(seen.next != "");
  }
}

TEST_CASE("verdicts: on file every lie is judged as in memory") {
  const prediction p = predict();
  profile_record record;
  record.run = {"20260102T030405Z-00c0ffee", "2026-01-02T03:04:05Z", "abc", false, "sha256:1",
                "13.0.88", "-O3"};
  record.device = p.device;
  record.ncu = "2025.3.1.0 (build 36398880)";
  for (const lie& l : lies()) record.problems.push_back(judged(l.show));
  const scratch_tree tree("verdicts");
  const std::string path = tree.str() + "/p.yaml";
  atomic_write(path, write_profile(record));
  profile_record back = read_profile(path);
  REQUIRE(back.problems.size() == lies().size());
  for (std::size_t i = 0; i < back.problems.size(); ++i) {
    CAPTURE(lies()[i].name);
    profiled& seen = back.problems[i];
    seen.verdicts.clear(), seen.verdict.clear(), seen.story.clear();
    judge(p, seen);
    CHECK(failed(seen) == failed(record.problems[i]));
    CHECK(seen.verdict == record.problems[i].verdict);
    CHECK(seen.story == record.problems[i].story);
  }
}

// ---- Stories ------------------------------------------------------------------------------------

TEST_CASE("stories: the tensor pipe binds where the model left its arithmetic out") {
  const prediction full = predict_tensor(true), blind = predict_tensor(false);
  REQUIRE(full.binding == "tensor");
  REQUIRE(blind.binding == "dram");
  profiled seen = profile_of(full);  // what the kernel does; both predictions look at it
  REQUIRE(counter(seen, tensor_pct).values[0] > 40);
  judge(full, seen);
  CHECK(failed(seen) == "");
  judge(blind, seen);
  CHECK(seen.verdict == "REFUTED");
  CHECK(on(seen, "time").verdict == "REFUTED");
  CHECK(on(seen, dram_pct).verdict == "REFUTED");
  CHECK(on(seen, tensor_pct).verdict == "REFUTED");
  CHECK(on(seen, dram_bytes).verdict == "CONFIRMED");  // its bytes were counted rightly
  CHECK(seen.story == "the tensor pipe binds; arithmetic missing from the model");
  CHECK(has(seen.next, "work model"));
  // With memory as busy it is another story.
  set(seen, dram_pct, 80);
  judge(blind, seen);
  CHECK(!has(seen.story, "tensor"));
}

TEST_CASE("stories: memory and SMs both idle") {
  const auto idle = [](double dram, double sm) {
    return judged([&](profiled& s) {
      set(s, dram_pct, dram);
      set(s, sm_pct, sm);
      s.time_us.median *= 4;
    });
  };
  CHECK(has(idle(15, 8).story, "both memory and SMs are mostly idle: latency or launch binds"));
  CHECK(has(idle(15, 8).next, "timeline"));
  CHECK(!has(idle(15, 70).story, "idle"));
  CHECK(!has(idle(55, 8).story, "idle"));
}

TEST_CASE("stories: bytes too many or too few, by their factor") {
  const auto scaled = [](const char* metric, double factor) {
    return judged([&](profiled& s) { scale(s, metric, factor); }).story;
  };
  CHECK(scaled(l2_reads, 1.5) == "bytes too many, by a factor of 1.5 in reads");
  CHECK(scaled(dram_reads, 1.25) == "bytes too many, by a factor of 1.25 in reads");
  CHECK(has(scaled(dram_reads, 2), "a factor of 2 in reads; as if the inputs were read twice"));
  CHECK(scaled(l2_writes, 2) == "bytes too many, by a factor of 2 in writes");
  CHECK(has(scaled(l2_writes, 0.25), "bytes too few: 0.25 of the predicted writes reached L2"));
  CHECK(has(scaled(dram_reads, 0.5), "0.5 of the predicted reads came from memory"));
}

TEST_CASE("stories: bytes as predicted and another time, against the floor of the session") {
  const auto time = [](double factor) {
    return judged([&](profiled& s) { s.time_us.median *= factor; });
  };
  CHECK(time(1.5).story ==
        "the bytes are as predicted, the time is longer (1.5 of this session's floor)");
  CHECK(has(time(0.95).story, "the time is shorter (0.95 of this session's floor)"));
  CHECK(time(0.95).next != time(1.5).next);
}

TEST_CASE("stories: where no rival fits, that is said") {
  const profiled seen = judged([](profiled& s) { scale(s, instructions, 1.5); });
  CHECK(failed(seen) == std::string(instructions) + " REFUTED");
  CHECK(seen.story == "no rival story of the prediction fits");
  CHECK(has(seen.next, "mend the model"));
}

TEST_CASE("stories: a spill explains the bytes that it moves, and is told first") {
  const profiled seen = judged([](profiled& s) {
    set(s, local_loads, 1e9);
    scale(s, l2_reads, 2);
    scale(s, l2_writes, 16);
    scale(s, dram_reads, 2);
  });
  CHECK(has(failed(seen), std::string(l2_reads) + " REFUTED"));
  CHECK(has(seen.story, "spilled"));
}

// ---- Predictions that cannot fail ---------------------------------------------------------------

TEST_CASE("predictions that cannot fail: each interval has a cap") {
  const prediction honest = predict();
  REQUIRE(why_cannot_fail(honest) == "");
  const auto widened = [&](const std::string& metric, double by) {  // by: half of its width
    prediction p = honest;
    for (counter_prediction& c : p.counters)
      if (c.metric == metric) c.low = c.value - by, c.high = c.value + by;
    return why_cannot_fail(p);
  };
  const auto capped = [&](const std::string& metric, double cap) {
    CAPTURE(metric);
    CHECK(widened(metric, 0.999 * cap) == "");
    CHECK(has(widened(metric, 1.001 * cap), metric + " is predicted within"));
  };
  constexpr double sectors = double(one_way) / 32;
  const double reads = 0.01 * double(one_way) + 40e3;
  const double writes = 0.1 * double(honest.device.l2_bytes) + 40e3;
  capped(dram_reads, reads);
  capped(dram_writes, writes);
  capped(dram_bytes, reads + writes);
  capped(l2_reads, 0.5 * sectors + 16);
  capped(l2_writes, 0.01 * sectors + 16);
  capped(instructions, 0.1 * honest.find(instructions)->value + 1);
  CHECK(widened(local_loads, 1) ==
        std::string(local_loads) + " is predicted within +-1 byte; expected at most 0");
  CHECK(widened(dram_pct, 24.9) == "");
  CHECK(widened(dram_pct, 30) ==
        std::string(dram_pct) + " is predicted within +-30 points; expected at most 25");
  const auto time = [&](double by) {
    prediction p = honest;
    p.low_us = (1 - by) * p.expected_us, p.high_us = (1 + by) * p.expected_us;
    return why_cannot_fail(p);
  };
  CHECK(time(0.149) == "");
  CHECK(time(0.2) == "the time is predicted within +-20 %; expected at most 15 %");
}

TEST_CASE("predictions that cannot fail: the bytes of small calls have caps too") {
  constexpr double way = 2e6;  // bytes
  const prediction small = predict([&](model_inputs& in) {
    in.traffic = {std::int64_t(way), std::int64_t(way), 1, 1};
    in.rivals = {{"unfused", {std::int64_t(2 * way), std::int64_t(way), 1, 1}}};
  });
  REQUIRE(why_cannot_fail(small) == "");
  const auto upwards = [&](const char* metric, double by) {  // half of the width
    prediction p = small;
    for (counter_prediction& c : p.counters)
      if (c.metric == metric) c.high = c.low + 2 * by;
    for (rival_story& r : p.rivals) r.excluded_by = excluding(p, r);
    return why_cannot_fail(p);
  };
  const double reads = 0.01 * way + 40e3, writes = way / 6 + 40e3;
  for (const auto& [metric, cap] : {std::pair{dram_reads, reads}, std::pair{dram_writes, writes},
                                    std::pair{dram_bytes, reads + writes}}) {
    CAPTURE(metric);
    CHECK(upwards(metric, 0.99 * cap) == "");
    CHECK(has(upwards(metric, 1.01 * cap), std::string(metric) + " is predicted within"));
  }
}

TEST_CASE("predictions that cannot fail: a value outside its own interval") {
  prediction p = predict();
  for (counter_prediction& c : p.counters)
    if (c.metric == instructions) c.value = 2 * c.high;
  CHECK(has(why_cannot_fail(p), std::string(instructions) + " is predicted as"));
  CHECK(has(why_cannot_fail(p), "outside its own interval"));
}

TEST_CASE("predictions that cannot fail: a rival that fits every interval") {
  const prediction honest = predict();
  REQUIRE(honest.rivals.size() >= 6);
  for (std::size_t i = 0; i < honest.rivals.size(); ++i) {
    CAPTURE(honest.rivals[i].name);
    CHECK(!honest.rivals[i].excluded_by.empty());
    prediction p = honest;
    p.rivals[i].excluded_by.clear();
    CHECK(has(why_cannot_fail(p), "the story '" + honest.rivals[i].name + "'"));
  }
  const auto with_rival = [](double reads) {
    return why_cannot_fail(predict([&](model_inputs& in) {
      in.rivals = {{"twin", {std::int64_t(reads * double(one_way)), one_way, 1, 1}}};
    }));
  };
  CHECK(has(with_rival(1), "the story 'twin'"));
  CHECK(has(with_rival(1.0001), "the story 'twin'"));  // too near to be told apart
  CHECK(with_rival(1.1) == "");
}

TEST_CASE("predictions that cannot fail: what excludes a rival refutes it in a profile, too") {
  const prediction p = predict();
  const std::vector<std::pair<std::string, std::function<void(profiled&)>>> shown = {
      {"reads twice", [](profiled& s) { scale(s, l2_reads, 2); }},
      {"writes nothing", [](profiled& s) { set(s, l2_writes, 0); }},
      {"L2-resident", [](profiled& s) { set(s, dram_reads, 0); }},
      {"spilled", [](profiled& s) { set(s, local_loads, 128); }},
      {"tensor-bound", [](profiled& s) { set(s, tensor_pct, 50); }}};
  for (const auto& [name, show] : shown) {
    CAPTURE(name);
    const auto rival = std::find_if(p.rivals.begin(), p.rivals.end(),
                                    [&, n = name](const rival_story& r) { return r.name == n; });
    REQUIRE(rival != p.rivals.end());
    REQUIRE(rival->excluded_by.size() == 1);
    CHECK(failed(judged(show)) == rival->excluded_by[0] + " REFUTED");
  }
}
