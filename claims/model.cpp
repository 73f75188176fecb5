// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/model.hpp"

#include <cuda_occupancy.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>

namespace capstone::claims {
namespace {

constexpr double sector = 32;  // bytes
constexpr double mb = 1e6;

// Widths of the intervals. Each is what separates kernels of one kind, or runs of one kernel, on an
// H200; docs/predictions.md says where each was measured.
constexpr double time_slack = 0.03;          // streaming kernels against the floor, from 16 MB
constexpr double time_excess = 0.055;        // upwards: where its buffers lie costs a kernel up to 5.3 %
constexpr double small_time_slack = 0.06;    // below: fixed costs differ more between kernels
constexpr double tiny_time_slack = 0.10;     // below 4 MB, around what a race finds the floor to be:
constexpr double tiny_floor = 1.05;          // 10 % above what calibration alone finds, 2.2 us and 1.97 at 1 MB
constexpr double read_slack = 0.0005;        // of the bytes read; 0.0002 was seen
constexpr double own_bytes = 12e3;           // instructions, constants, parameters: 5 to 7 KB were seen
constexpr double no_writes = 64e3;           // less than that reaches memory: none is predicted
constexpr double residue_slack = 1.8 * mb;   // what stays in L2 depends on the stores' cache hints
constexpr double dram_points = 7, sm_points = 5, sm_share = 0.15, tensor_points = 25;

// Caps on half-widths, beyond which an interval is no prediction.
constexpr double time_cap = 0.15, point_cap = 25;
constexpr double share_cap = 0.10;         // of instructions: a row may leave an eighth of its places empty, 8 %
constexpr double read_cap = 0.01;          // of the bytes read: each is read once; 0.0031 is the widest so far
constexpr double write_cap = 1.0 / 6;      // of the bytes written: what stays in L2 has a knee, 0.10 there,
constexpr double l2_cap = 0.1;             // and is known to a tenth of L2; a twentieth is the widest so far
constexpr double beside_cap = 40e3;        // bytes that are no data (own_bytes): 5 to 29 KB were seen
constexpr double read_sector_cap = 0.5;    // of the sectors read: beyond, twice the reads would fit
constexpr double write_sector_cap = 0.01;  // of the sectors written: they are known, and 0.2 % is noise
constexpr double few_sectors = 16;         // noise where there are few of them

std::string text(const char* format, auto... values) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

const floor_fit& fit_for(const ceilings& c, std::int64_t reads, std::int64_t writes) {
  const floor_fit* best = nullptr;
  const auto distance = [&](const floor_fit& f) {
    return std::abs(double(f.reads) / double(f.reads + f.writes) - double(reads) / double(reads + writes)) +
           0.01 * std::abs(double(f.reads + f.writes - reads - writes));
  };
  for (const floor_fit& f : c.fits)
    if (best == nullptr || distance(f) < distance(*best)) best = &f;
  if (best == nullptr) throw std::runtime_error("the ceilings hold no fitted floor; run `claims calibrate`");
  return *best;
}

/// The calibrated copies of the mix nearest to reads:writes, by bytes moved.
std::vector<counted_copy> copies_for(const ceilings& c, std::int64_t reads, std::int64_t writes) {
  const auto& all = c.counters->copies;
  const auto distance = [&](const counted_copy& f) {
    return std::abs(double(f.reads - reads)) + std::abs(double(f.writes - writes));
  };
  double best = 1e9;
  for (const counted_copy& f : all) best = std::min(best, distance(f));
  std::vector<counted_copy> found;
  for (const counted_copy& f : all)
    if (distance(f) == best) found.push_back(f);
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.read_bytes + a.written_bytes < b.read_bytes + b.written_bytes; });
  return found;
}

/// Linear between the points around x; as between the last two beyond them, the first below.
template <class X, class Y>
double between(const std::vector<counted_copy>& points, double x, X x_of, Y y_of) {
  if (points.empty()) throw std::runtime_error("the ceilings hold no copy under the profiler; run `claims calibrate`");
  if (x <= x_of(points.front())) return y_of(points.front());
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double left = x_of(points[i - 1]), right = x_of(points[i]);
    if (x <= right || i + 1 == points.size())
      return y_of(points[i - 1]) + (x - left) / (right - left) * (y_of(points[i]) - y_of(points[i - 1]));
  }
  return y_of(points.back());
}

int max_warps(int cc) { return cc == 86 || cc == 87 || cc == 89 || cc / 10 == 11 || cc / 10 == 12 ? 48 : 64; }

double half_width(const counter_prediction& c) { return (c.high - c.low) / 2; }

/// The widest that half of the interval of `c` may be, in its unit.
double cap_of(const prediction& p, const counter_prediction& c) {
  const auto value = [&](const char* metric) {
    const counter_prediction* of = p.find(metric);
    return of == nullptr ? std::numeric_limits<double>::infinity() : of->value;  // that it is left out is said elsewhere
  };
  const double written = sector * value("lts__t_sectors_srcunit_tex_op_write.sum");
  const double reads = read_cap * value("dram__bytes_read.sum") + beside_cap;
  const double writes = std::min(write_cap * written, l2_cap * double(p.device.l2_bytes)) + beside_cap;
  if (c.unit == "%") return point_cap;
  if (c.metric == "dram__bytes_read.sum") return reads;
  if (c.metric == "dram__bytes_write.sum") return writes;
  if (c.metric == "dram__bytes.sum") return reads + writes;
  if (c.metric == "lts__t_sectors_srcunit_tex_op_read.sum") return read_sector_cap * c.value + few_sectors;
  if (c.metric == "lts__t_sectors_srcunit_tex_op_write.sum") return write_sector_cap * c.value + few_sectors;
  return share_cap * c.value + (c.unit == "inst" ? 1 : 0);  // of 0 local bytes it is 0
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "nothing" : all;
}

}  // namespace

int blocks_per_sm(int cc, int registers, int threads, std::int64_t smem_bytes) {
  // What only a device can tell is said here; how it is shared out (registers a sub-partition, the
  // units of both, the most blocks and barriers) is NVIDIA's own header.
  constexpr int registers_of_sm = 65536, driver_smem = 1024;
  const int major = cc / 10;
  const int smem_of_sm = (major >= 9 && major <= 11 ? 228 : cc == 80 || cc == 87 ? 164 : 100) * 1024;
  cudaOccDeviceProp sm;
  sm.computeMajor = major;
  sm.computeMinor = cc % 10;
  sm.maxThreadsPerBlock = 1024;
  sm.maxThreadsPerMultiprocessor = 32 * max_warps(cc);
  sm.regsPerBlock = sm.regsPerMultiprocessor = registers_of_sm;
  sm.warpSize = 32;
  sm.numSms = 1;
  sm.sharedMemPerMultiprocessor = smem_of_sm;
  sm.sharedMemPerBlock = sm.sharedMemPerBlockOptin = smem_of_sm - driver_smem;
  sm.reservedSharedMemPerBlock = driver_smem;
  cudaOccFuncAttributes kernel;
  kernel.maxThreadsPerBlock = sm.maxThreadsPerBlock;
  kernel.numRegs = registers;
  kernel.sharedSizeBytes = std::size_t(smem_bytes);
  kernel.numBlockBarriers = 1;
  const cudaOccDeviceState no_preference;
  cudaOccResult fit;
  if (const cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&fit, &sm, &kernel, &no_preference, threads, 0); error != CUDA_OCC_SUCCESS)
    throw std::runtime_error(text("cc is %d, registers %d, threads %d, smem_bytes %lld; expected what this toolkit's cuda_occupancy.h knows (its error %d)", cc,
                                  registers, threads, static_cast<long long>(smem_bytes), int(error)));
  return fit.activeBlocksPerMultiprocessor;
}

void apply_model(const model_inputs& in, prediction& p) {
  const ceilings& c = in.measured;
  if (!c.counters)
    throw std::runtime_error("the ceilings hold no counters (" + c.why_no_counters + "); run `claims calibrate` where they can be read");
  const traffic_model& t = in.traffic;
  const double reads = double(t.read_bytes), writes = double(t.written_bytes), bytes = reads + writes;
  const double reused = double(t.reused_bytes), sms = double(c.device.sms);
  const double mhz = c.sm_mhz.empty() ? 0 : double(c.sm_mhz[1]);
  const int cc = std::stoi(c.device.cc.substr(0, c.device.cc.find('.'))) * 10 + std::stoi(c.device.cc.substr(c.device.cc.find('.') + 1));

  // ---- launch
  const std::int64_t smem = in.code.static_smem + in.launch.dynamic_smem_bytes;
  const int warps = (int(in.launch.block) + 31) / 32;
  const int resident = std::max(1, blocks_per_sm(cc, in.code.registers, int(in.launch.block), smem));
  p.launch = {in.code.symbol, in.launch.grid, in.launch.block, 1, in.code.registers, smem,
              recorded(double(in.launch.grid) / (sms * resident))};

  // ---- terms, microseconds
  const floor_fit& fit = fit_for(c, t.read_streams, t.written_streams);
  const double l2_bytes = reads - reused + reused * std::min(sms, double(in.launch.grid)) + writes;
  const double all_warps = double(in.launch.grid) * warps;
  const bool counted = in.launch.single_pass && in.code.loops <= 1;
  const double instructions = counted ? all_warps * double(in.code.straight) : 0;
  const double flops = in.memory_only ? 0 : in.work.flops, special = in.memory_only ? 0 : in.work.special;
  const double tensor = in.memory_only ? 0 : in.work.tensor_flops;
  const auto term = [&](const char* name, std::string formula, double us) { p.terms.push_back({name, std::move(formula), recorded(us)}); };
  term("dram", text("%.0f B / %.4g GB/s", bytes, fit.gb_per_s), bytes / (fit.gb_per_s * 1e3));
  term("launch", text("fixed cost of a streaming kernel, %.4g us (an empty one: %.4g)", fit.fixed_us, c.empty_kernel_us), fit.fixed_us);
  term("l2", text("%.0f B / %.4g GB/s", l2_bytes, c.l2_gb_per_s), l2_bytes / (c.l2_gb_per_s * 1e3));
  term("fma", text("%.0f flops / %.4g TFLOP/s", flops, c.fma_tflops.median), flops / (c.fma_tflops.median * 1e6));
  term("special", text("%.0f ops / %.4g Gop/s", special, c.special_gops.median), special / (c.special_gops.median * 1e3));
  term("tensor", text("%.0f flops / %.4g TFLOP/s", tensor, c.tensor_bf16_tflops.median), tensor / (c.tensor_bf16_tflops.median * 1e6));
  if (counted && mhz > 0)
    term("issue", text("%.0f warps x %lld instructions / (4 x %.0f SMs x %.0f MHz)", all_warps, static_cast<long long>(in.code.straight), sms, mhz),
         instructions / (4 * sms * mhz));
  std::vector<time_term> order = p.terms;
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.us > b.us; });
  p.binding = order[0].name;
  p.second = order[1].name;
  p.margin = recorded(order[0].us / std::max(order[1].us, 1e-9));
  // One row's chain (load, reduce, store) is longer than a copy's by the reduction; other blocks hide
  // it the more, the more waves there are.
  const double chain = c.chain_reduce_us + c.chain_load_us / 4;
  const double visible = chain * std::min(1.0, 0.75 / std::max(p.launch.waves, 1e-9));
  term("chain", text("(reduce %.3g us + load %.3g us / 4) x min(1, 0.75 / %.3g waves)", c.chain_reduce_us, c.chain_load_us, p.launch.waves), visible);
  const double waves_up = std::ceil(p.launch.waves), tail = p.launch.waves > 1 ? (waves_up - p.launch.waves) / waves_up : 0;
  const double stream = floor_us(c, t.read_streams, t.written_streams, std::int64_t(bytes));
  double arithmetic = 0;
  for (const time_term& a : p.terms)
    if (a.name == "fma" || a.name == "special" || a.name == "tensor" || a.name == "issue") arithmetic = std::max(arithmetic, a.us);
  const bool streams = arithmetic + fit.fixed_us <= stream;
  const double body = (streams ? stream : arithmetic + fit.fixed_us) * (bytes < 4 * mb ? tiny_floor : 1);
  term("tail", text("(%.0f - %.3g waves) / %.0f of the last wave, idle; in the interval only", waves_up, p.launch.waves, waves_up),
       tail * body / std::max(waves_up, 1.0));

  // ---- time
  const double slack = bytes >= 16 * mb ? time_slack : bytes >= 4 * mb ? small_time_slack : tiny_time_slack;
  p.expected_us = recorded(body + visible);
  p.low_us = recorded(body * (1 - slack) + visible * 0.6);
  p.high_us = recorded(body * (1 + (bytes >= 16 * mb ? time_excess : slack)) + visible * 1.4 + (streams ? 0 : tail * body / std::max(waves_up, 1.0)));
  p.physics_us = recorded(0.9 * (streams ? stream : arithmetic));
  const double row_bytes = in.rows > 0 ? bytes / double(in.rows) : bytes;
  p.launch_dominates_below_bytes = std::int64_t(fit.fixed_us * fit.gb_per_s * 1e3);
  p.launch_dominates_below_rows = std::int64_t(std::ceil(double(p.launch_dominates_below_bytes) / std::max(row_bytes, 1.0)));

  // ---- counters
  const counter_ceilings& k = *c.counters;
  const std::vector<counted_copy> copies = copies_for(c, t.read_streams, t.written_streams);
  const auto moved = [](const counted_copy& x) { return double(x.read_bytes + x.written_bytes); };
  const auto predict = [&](const char* metric, const char* unit, double value, double low, double high, std::string formula) {
    p.counters.push_back({metric, unit, recorded(value), recorded(std::max(0.0, low)), recorded(high), std::move(formula)});
  };
  const double shortfall = between(copies, writes, [](const auto& x) { return double(x.written_bytes); },
                                   [](const auto& x) { return double(x.written_bytes) - x.dram_write; });
  const double spread = between(copies, writes, [](const auto& x) { return double(x.written_bytes); },
                                [](const auto& x) { return x.dram_write_spread; });
  const double left = writes - shortfall, dram_write = left < no_writes ? 0 : left;
  // All of little that is written stays in L2, and what leaves it begins to differ near its capacity.
  const double ramp = std::min(1.0, std::pow(writes / (double(c.device.l2_bytes) / 2), 2));
  const double write_slack = residue_slack * ramp + spread / 2 + k.noise_dram_write;
  const double read_low = reads * (1 - read_slack), read_high = reads * (1 + read_slack) + own_bytes + 3 * k.noise_dram_read;
  const double under_profiler = between(copies, bytes, moved, [](const auto& x) { return x.duration_us; });
  const counted_copy& largest = copies.back();
  const double peak = (largest.dram_read + largest.dram_write) / (largest.duration_us * largest.dram_pct / 100);  // B/us
  const double profiled_us = streams ? under_profiler + visible : std::max(under_profiler, body);
  const double dram_pct = 100 * (reads + dram_write) / (profiled_us * peak);
  predict("dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", dram_pct, dram_pct - dram_points, std::min(100.0, dram_pct + dram_points),
          text("(%.0f + %.0f B) / (%.4g us x %.4g GB/s)", reads, dram_write, profiled_us, peak / 1e3));
  // The counter's scale is that of the calibrated load: mma.sync does not fill Hopper's pipe.
  const double tensor_pct = tensor > 0 ? k.tensor_pct * tensor / (c.tensor_bf16_tflops.median * 1e6) / profiled_us : 0;
  // The busiest part of an SM: its issue slots, its tensor cores, or what even a copy keeps busy.
  const double issue_pct = mhz > 0 ? 100 * instructions / (4 * sms * mhz * profiled_us) : 0;
  const double copy_pct = streams ? between(copies, bytes, moved, [](const auto& x) { return x.sm_pct; }) : 0;
  const double sm_pct = std::max({issue_pct, tensor_pct, copy_pct});
  const double sm_width = tensor_pct > issue_pct ? tensor_points : sm_share * sm_pct + sm_points;
  if (counted || tensor > 0 || in.memory_only)
    predict("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", sm_pct, sm_pct - sm_width, std::min(100.0, sm_pct + sm_width),
            text("issue slots %.3g %%, tensor %.3g %%, a copy %.3g %% in %.4g us", issue_pct, tensor_pct, copy_pct, profiled_us));
  // Between two copies the curve lies below the line through them, and above what is left if the most stays.
  const double write_low = std::min(dram_write - write_slack, std::max(0.0, writes - k.residue_bytes.high));
  const double write_high = dram_write + write_slack;
  predict("dram__bytes.sum", "byte", reads + dram_write, read_low + std::max(0.0, write_low), read_high + write_high, "read + written below");
  predict("dram__bytes_read.sum", "byte", reads, read_low, read_high, text("%.0f", reads));
  predict("dram__bytes_write.sum", "byte", dram_write, write_low, write_high,
          text("%.0f less %.0f that stay in L2", writes, writes - dram_write));
  const double once = reads / sector, again = (reads - reused + reused * std::min(sms * 1.25, double(in.launch.grid))) / sector;
  predict("lts__t_sectors_srcunit_tex_op_read.sum", "sector", once, once * 0.998, again * 1.002 + k.noise_l2_read_sectors + 8,
          text("%.0f B / 32, of which %.0f B up to once a block and 1.25 times an SM", reads, reused));
  predict("lts__t_sectors_srcunit_tex_op_write.sum", "sector", writes / sector, writes / sector * 0.998, writes / sector * 1.002 + k.noise_l2_write_sectors + 8,
          text("%.0f B / 32", writes));
  for (const char* metric : {"l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum"})
    predict(metric, "byte", 0, 0, 0, text("%lld local accesses in the machine code", static_cast<long long>(in.code.spill_accesses)));
  if (counted)
    predict("sm__inst_executed.sum", "inst", instructions, instructions * 0.97 * in.launch.used, instructions * 1.03,
            text("%.0f warps x %lld instructions up to the last EXIT; %.3g of the places in a row are used, the rest may be skipped", all_warps,
                 static_cast<long long>(in.code.straight), in.launch.used));
  predict("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", "%", tensor_pct, tensor_pct - tensor_points,
          tensor > 0 ? std::min(100.0, tensor_pct + tensor_points) : 2, text("%.0f flops in %.4g us", tensor, profiled_us));
  if (counted && !in.memory_only && in.work.special > 0)
    predict("sm__inst_executed_pipe_xu.sum", "inst", special / 32, special / 32 * 0.99, special / 32 * 1.01 + 1, text("%.0f results / 32 lanes", special));
  // Blocks of a grid that is no full wave spread over the SMs; the share is of the SMs that have one.
  const double limit = double(resident * warps) / max_warps(cc);
  const double on_one = std::min(double(resident), std::ceil(double(in.launch.grid) / sms)) * warps / max_warps(cc);
  const double share = 100 * std::min(limit, on_one);
  predict("sm__warps_active.avg.pct_of_peak_sustained_active", "%", 0.9 * share, p.launch.waves < 2 ? std::max(0.4 * share, 1.02 * share - 2 * point_cap + 0.1) : 0.62 * share, share * 1.02,
          text("%d blocks of %d warps fit an SM of %d warps; %.3g waves", resident, warps, max_warps(cc), p.launch.waves));

  // ---- rivals
  const auto rival = [&](const std::string& name, const std::string& what, const std::vector<std::pair<std::string, double>>& shows) {
    rival_story r{name, what, {}, {}};
    for (const auto& [metric, value] : shows) r.shows.emplace_back(metric, recorded(value));
    r.excluded_by = excluding(p, r);
    p.rivals.push_back(r);
  };
  const auto chain_of_kernels = [&](const std::string& name, double r, double w) {
    rival(name, "the chain of kernels that the fused one replaces",
          {{"lts__t_sectors_srcunit_tex_op_read.sum", r / sector}, {"lts__t_sectors_srcunit_tex_op_write.sum", w / sector},
           {"dram__bytes_read.sum", r}, {"dram__bytes.sum", r + std::max(0.0, w - shortfall)}});
  };
  for (const auto& [name, other] : in.rivals)
    chain_of_kernels(name, double(other.read_bytes), double(other.written_bytes));
  rival("reads twice", "the big inputs are read a second time", {{"lts__t_sectors_srcunit_tex_op_read.sum", (2 * (reads - reused) + reused) / sector}});
  rival("writes nothing", "the outputs are left as they were", {{"lts__t_sectors_srcunit_tex_op_write.sum", 0}});
  rival("L2-resident", "the inputs come from L2, not from memory", {{"dram__bytes_read.sum", 0}});
  rival("spilled", "registers are spilled to local memory: one access of a warp is 128 bytes", {{"l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", 128}});
  if (tensor == 0)
    rival("tensor-bound", "tensor cores are busy half of the time", {{"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", 50}});
}

std::string why_cannot_fail(const prediction& p) {
  for (const counter_prediction& c : p.counters) {
    const double half = half_width(c), cap = cap_of(p, c);
    const std::string unit = c.unit == "%" ? "points" : c.unit;
    if (half > cap)
      return c.metric + " is predicted within +-" + format_double(recorded(half)) + " " + unit + "; expected at most " + format_double(recorded(cap));
    if (!(c.low <= c.value && c.value <= c.high))
      return c.metric + " is predicted as " + format_double(c.value) + ", outside its own interval [" + format_double(c.low) + ", " + format_double(c.high) + "]";
  }
  const double half = (p.high_us - p.low_us) / 2;
  if (half > time_cap * p.expected_us)
    return "the time is predicted within +-" + format_double(recorded(100 * half / p.expected_us)) + " %; expected at most " + format_double(100 * time_cap) + " %";
  for (const rival_story& r : p.rivals)
    if (r.excluded_by.empty())
      return "the story '" + r.name + "' (" + r.story + ") would fit every interval too; such a prediction cannot fail";
  for (const rival_story& r : p.rivals)
    if (const std::vector<std::string> excludes = excluding(p, r); p.schema != older_prediction_schema && r.excluded_by != excludes)
      return "the story '" + r.name + "' is said to be excluded by " + listed(r.excluded_by) + "; by the values that it would show it is by " + listed(excludes);
  return "";
}

}  // namespace capstone::claims
