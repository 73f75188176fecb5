// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/calibrate.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <new>
#include <set>
#include <stdexcept>

#include "claims/counted_copies.hpp"
#include "claims/ncu.hpp"
#include "claims/probe.hpp"
#include "claims/select.hpp"
#include "core/floor.hpp"
#include "core/rates.hpp"
#include "core/timer.hpp"

namespace capstone::claims {
namespace {

constexpr std::int64_t kib = 1024, mib = 1024 * kib;
constexpr std::int64_t floor_bytes[] = {16 * kib,  64 * kib,  256 * kib, mib,      4 * mib,
                                        8 * mib,   16 * mib,  32 * mib,  64 * mib, 128 * mib,
                                        256 * mib, 512 * mib, 1024 * mib};
constexpr std::int64_t largest_uneven = 256 * mib;  // of a mix with more read than written
constexpr std::pair<std::int64_t, std::int64_t> mixes[] = {{1, 1}, {2, 2}, {2, 1}, {3, 1}};

constexpr int max_sets = 256;  // as in `claims bench`: smaller calls are kept cold by evicting L2
constexpr int preselect_rounds = 3, finalists = 2, floor_rounds = 15;
constexpr int rate_rounds = 15, launch_samples = 11, launches = 2000;

// So long that a call takes some 0.5 ms on today's GPUs: ramps and launches do not count.
constexpr int fma_iterations = 256, special_iterations = 128;
constexpr int chase_steps = 1024, reduce_repeats = 8192;

using clock = std::chrono::steady_clock;

struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What all measurements share, and the clocks that they saw.
struct session {
  const device& where;
  const calibrate_options& options;
  clock::time_point begin = clock::now();
  std::vector<double> mhz;

  double spent_s() const { return std::chrono::duration<double>(clock::now() - begin).count(); }
  bool over_budget() const { return options.budget_s > 0 && spent_s() > options.budget_s; }

  timing measure(const std::vector<arm>& arms, const timing_options& how) {
    timing timed = time_arms(where, arms, how);
    for (const arm_samples& a : timed.arms) mhz.insert(mhz.end(), a.sm_mhz.begin(), a.sm_mhz.end());
    return timed;
  }

  /// Samples of something small that stays in the caches, microseconds a call.
  std::vector<double> hot_us(const arm& what, double warm_up_ms) {
    timing_options how;
    how.rounds = rate_rounds;
    how.seed = options.seed;
    how.warm_up_ms = warm_up_ms;
    return measure({what}, how).arms[0].us;
  }

  /// Median and interval, as a record keeps them.
  ratio_band band(const std::vector<double>& values) const {
    const interval around = bootstrap_median(values, options.seed);
    return recorded({median(values), around.low, around.high});
  }
};

floor_point measure_floor(session& s, std::int64_t reads, std::int64_t writes, std::int64_t bytes) {
  const traffic_model traffic = streams_of(reads, writes, bytes);
  timing_options how;
  how.seed = s.options.seed;
  how.bytes_per_call = traffic.read_bytes + traffic.written_bytes;
  how.sets =
      sets_for_cold(s.where, how.bytes_per_call, streaming_floor::bytes_needed(traffic), max_sets);
  how.rounds = floor_rounds;
  how.warm_up_ms = 25;
  const streaming_floor floor(s.where, traffic, how.sets);
  timing_options quick = how;
  quick.warm_up_ms = 10;
  quick.sample_us = 200;
  const std::vector<arm> best =
      fastest_arms(s.where, floor.arms(), quick, preselect_rounds, finalists);
  const timing timed = s.measure(best, how);
  const arm_samples& fastest =
      *std::min_element(timed.arms.begin(), timed.arms.end(),
                        [](auto& a, auto& b) { return median(a.us) < median(b.us); });
  const ratio_band us = s.band(fastest.us);
  return {reads, writes, how.bytes_per_call, us.median, us.low, us.high, fastest.name};
}

void measure_floors(session& s, ceilings& c) {
  for (const auto& [reads, writes] : mixes) {
    std::vector<floor_point> points;
    for (const std::int64_t bytes : floor_bytes) {
      if (reads > writes && bytes > largest_uneven) continue;
      if (s.over_budget())
        throw refused("the budget of " + format_double(s.options.budget_s) +
                      " s ran out before the floor of " + std::to_string(bytes) + " bytes, " +
                      std::to_string(reads) + " read and " + std::to_string(writes) +
                      " written; nothing was written, for half the floors are none");
      try {
        points.push_back(measure_floor(s, reads, writes, bytes));
      } catch (const std::bad_alloc&) {
        std::printf("%lld bytes do not fit the device's memory: left out\n",
                    static_cast<long long>(bytes));
        continue;
      }
      const floor_point& p = points.back();
      std::fprintf(
          stderr,
          "calibrate: floor %lld:%lld, %lld bytes: %.3f us, %.0f GB/s (%s), %.0f s so far\n",
          static_cast<long long>(reads), static_cast<long long>(writes),
          static_cast<long long>(p.bytes), p.us, double(p.bytes) / p.us / 1e3, p.variant.c_str(),
          s.spent_s());
    }
    floor_fit fit = fit_floor(points);
    fit.fixed_us = recorded(fit.fixed_us);
    fit.gb_per_s = recorded(fit.gb_per_s);
    fit.worst_residual = recorded(fit.worst_residual);
    for (double& r : fit.residuals) r = recorded(r);
    c.fits.push_back(std::move(fit));
    c.floors.insert(c.floors.end(), points.begin(), points.end());
  }
}

/// From 1 MB to twice the L2 that the device reports, denser where the edge may be.
std::set<std::int64_t> working_sets(std::int64_t l2_bytes) {
  std::set<std::int64_t> sizes;
  for (std::int64_t bytes = mib; bytes < l2_bytes / 4; bytes *= 2) sizes.insert(bytes);
  for (const int sixteenths : {4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24, 32})
    sizes.insert(std::max(mib, l2_bytes / 16 * sixteenths / 512 * 512));
  return sizes;
}

void measure_l2(session& s, ceilings& c) {
  for (const std::int64_t bytes : working_sets(s.where.limits.l2_bytes)) {
    const l2_load load(s.where, bytes);
    const double us = median(s.hot_us(load.as_arm(), 5));
    c.l2_points.push_back({bytes, recorded(load.bytes_per_call() / us / 1e3)});
  }
  c.l2_gb_per_s = recorded(l2_plateau(c.l2_points, s.where.limits.l2_bytes));
  c.l2_edge_bytes = l2_edge(c.l2_points, c.l2_gb_per_s);
  std::fprintf(stderr, "calibrate: L2 %.0f GB/s up to %lld bytes, %.0f s so far\n", c.l2_gb_per_s,
               static_cast<long long>(c.l2_edge_bytes), s.spent_s());
}

/// Operations per microsecond divided by `scale`.
ratio_band measure_pipe(session& s, pipe which, int iterations, double scale) {
  const pipe_load load(s.where, which, iterations);
  std::vector<double> rates;
  for (const double us : s.hot_us(load.as_arm(), 60))
    rates.push_back(load.operations() / us / scale);
  return s.band(rates);
}

void measure_rates(session& s, ceilings& c) {
  c.fma_tflops = measure_pipe(s, pipe::fma, fma_iterations, 1e6);
  c.special_gops = measure_pipe(s, pipe::special, special_iterations, 1e3);
  c.tensor_bf16_tflops = measure_pipe(s, pipe::tensor, tensor_iterations, 1e6);
  std::fprintf(stderr, "calibrate: pipes done, %.0f s so far\n", s.spent_s());
}

void measure_latencies(session& s, ceilings& c) {
  {
    const pointer_chase chase(s.where, chase_steps);
    c.chain_load_us = recorded(median(s.hot_us(chase.as_arm(), 20)) / chase_steps);
  }
  const block_reduction reduction(s.where, reduce_repeats);
  c.chain_reduce_us = recorded(median(s.hot_us(reduction.as_arm(), 20)) / reduce_repeats);
  c.launch_stream_us = recorded(median(stream_launch_us(s.where, launches, launch_samples)));
  c.launch_graph_node_us = recorded(median(graph_node_us(s.where, launches, launch_samples)));
  c.empty_kernel_us = recorded(median(s.hot_us(empty_arm(), 20)));
}

/// Why there are no counters, or "" after filling them in.
std::string measure_counters(const session& s, ceilings& c) {
  if (s.over_budget())
    return "the budget of " + format_double(s.options.budget_s) +
           " s ran out before the profiler's turn";
  try {
    c.counters =
        count_copies(s.where, c.floors, std::string(CAPSTONE_BINARY_DIR) + "/profiles/calibrate");
    return "";
  } catch (const ncu_error& error) {
    return std::string(error.what()) + (error.remedy.empty() ? "" : "; " + error.remedy);
  } catch (const std::filesystem::filesystem_error& error) {  // no place for the profiler's reports
    return error.what();
  }
}

void print(const ceilings& c) {
  std::printf("ceilings of %s (%s, driver %s)", c.device.id.c_str(), c.device.name.c_str(),
              c.device.driver.c_str());
  if (!c.sm_mhz.empty())
    std::printf(", SM clock %lld MHz [%lld, %lld]", static_cast<long long>(c.sm_mhz[1]),
                static_cast<long long>(c.sm_mhz[0]), static_cast<long long>(c.sm_mhz[2]));
  std::printf("\n  floor  %14s %10s %21s %8s  variant\n", "bytes", "us", "", "GB/s");
  for (const floor_point& p : c.floors)
    std::printf("  %lld:%lld    %14lld %10.3f [%9.3f, %9.3f] %8.0f  %s\n",
                static_cast<long long>(p.reads), static_cast<long long>(p.writes),
                static_cast<long long>(p.bytes), p.us, p.low, p.high, double(p.bytes) / p.us / 1e3,
                p.variant.c_str());
  for (const floor_fit& f : c.fits)
    std::printf("  fit    %lld:%lld  %.3f us + bytes / %.0f GB/s, at worst %.1f %% off\n",
                static_cast<long long>(f.reads), static_cast<long long>(f.writes), f.fixed_us,
                f.gb_per_s, 100 * f.worst_residual);
  std::printf("  L2     %.0f GB/s up to %lld bytes;", c.l2_gb_per_s,
              static_cast<long long>(c.l2_edge_bytes));
  for (const l2_point& p : c.l2_points)
    std::printf(" %lld: %.0f", static_cast<long long>(p.bytes / mib), p.gb_per_s);
  std::printf(" (MB: GB/s)\n");
  const auto rate = [](const char* name, const ratio_band& r, const char* unit) {
    std::printf("  %-7s%.1f [%.1f, %.1f] %s\n", name, r.median, r.low, r.high, unit);
  };
  rate("fma", c.fma_tflops, "TFLOP/s, float32");
  rate("rsqrt", c.special_gops, "Gop/s");
  rate("tensor", c.tensor_bf16_tflops, "TFLOP/s, bf16 by mma.sync");
  std::printf("  launch on a stream %.3f us, node of a graph %.3f us, empty kernel %.3f us\n",
              c.launch_stream_us, c.launch_graph_node_us, c.empty_kernel_us);
  std::printf("  dependent load %.3f us, reduction of a block %.4f us\n", c.chain_load_us,
              c.chain_reduce_us);
  if (!c.counters) return;
  std::printf("  counters by ncu %s\n  copy %12s %12s %14s %14s %7s %7s %10s\n",
              c.counters->ncu.c_str(), "read", "written", "DRAM read", "DRAM written", "DRAM %",
              "SM %", "us");
  for (const counted_copy& k : c.counters->copies)
    std::printf("  %lld:%lld  %12lld %12lld %14.0f %14.0f %7.2f %7.2f %10.2f  %s\n",
                static_cast<long long>(k.reads), static_cast<long long>(k.writes),
                static_cast<long long>(k.read_bytes), static_cast<long long>(k.written_bytes),
                k.dram_read, k.dram_write, k.dram_pct, k.sm_pct, k.duration_us, k.variant.c_str());
  std::printf(
      "  left in L2 %.0f bytes [%.0f, %.0f]; an empty kernel: %.0f read, %.0f written, %.0f and "
      "%.0f sectors\n",
      c.counters->residue_bytes.median, c.counters->residue_bytes.low,
      c.counters->residue_bytes.high, c.counters->noise_dram_read, c.counters->noise_dram_write,
      c.counters->noise_l2_read_sectors, c.counters->noise_l2_write_sectors);
}

}  // namespace

double l2_plateau(const std::vector<l2_point>& points, std::int64_t l2_bytes) {
  std::vector<double> inside;
  for (const l2_point& p : points)
    if (p.bytes <= l2_bytes / 2) inside.push_back(p.gb_per_s);
  if (inside.empty())
    throw std::invalid_argument("points hold no working set of at most " +
                                std::to_string(l2_bytes / 2) +
                                " bytes, half the L2; expected one or more");
  return median(inside);
}

std::int64_t l2_edge(const std::vector<l2_point>& points, double plateau) {
  std::int64_t edge = 0;
  for (const l2_point& p : points)
    if (p.gb_per_s >= 0.8 * plateau) edge = std::max(edge, p.bytes);
  return edge;
}

int calibrate(const calibrate_options& options, const device& where) {
  if (where.is_host()) {
    std::fprintf(stderr,
                 "claims calibrate refuses: device is host; expected a GPU, for what the host "
                 "measures is no evidence\n");
    return 2;
  }
  selection chosen;
  chosen.out = options.out;
  const std::string path = out_root(chosen, where) + "/evidence/" + where.id + "/ceilings.yaml";
  ceilings c;
  c.run = this_run();
  c.device = describe(where);
  session s{where, options, clock::now(), {}};
  try {
    measure_floors(s, c);
  } catch (const refused& why) {
    std::fprintf(stderr, "claims calibrate refuses: %s\n", why.what());
    return 2;
  }
  measure_l2(s, c);
  measure_rates(s, c);
  measure_latencies(s, c);
  if (!s.mhz.empty())
    for (const double q : {0.0, 0.5, 1.0})
      c.sm_mhz.push_back(static_cast<std::int64_t>(quantile(s.mhz, q)));
  c.why_no_counters = "the profiler's turn had not come";
  atomic_write(path, write_ceilings(c));  // what is measured stays, whatever the profiler does
  c.why_no_counters = measure_counters(s, c);
  atomic_write(path, write_ceilings(c));
  print(c);
  if (!c.counters)
    std::fprintf(stderr, "claims calibrate: warning: no counters: %s\n", c.why_no_counters.c_str());
  std::printf("calibrate on %s: %zu floors in %.0f s; record %s\n", where.id.c_str(),
              c.floors.size(), s.spent_s(), path.c_str());
  return 0;
}

}  // namespace capstone::claims
