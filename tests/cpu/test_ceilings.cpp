// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The record of a GPU's ceilings: round trip, strictness, the fit of the floors and what is read
// from it, and the counters taken from a profile. All data here is made up; the profiler's tables
// are too.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "claims/calibrate.hpp"
#include "claims/ceilings.hpp"
#include "claims/counted_copies.hpp"
#include "claims/metrics.hpp"
#include "claims/probe.hpp"
#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;
using capstone::tools::record_error;

namespace {

constexpr std::int64_t mib = 1024 * 1024;

/// Points on t = fixed + bytes / rate, times a factor each.
std::vector<floor_point> line(std::int64_t reads, std::int64_t writes, double fixed_us,
                              double gb_per_s,
                              const std::vector<std::pair<std::int64_t, double>>& sizes) {
  std::vector<floor_point> points;
  for (const auto& [bytes, factor] : sizes) {
    const double us = (fixed_us + double(bytes) / (gb_per_s * 1e3)) * factor;
    points.push_back({reads, writes, bytes, recorded(us), recorded(us * 0.99), recorded(us * 1.01),
                      "u4 t256 cs"});
  }
  return points;
}

floor_fit rounded(floor_fit fit) {
  fit.fixed_us = recorded(fit.fixed_us);
  fit.gb_per_s = recorded(fit.gb_per_s);
  fit.worst_residual = recorded(fit.worst_residual);
  for (double& r : fit.residuals) r = recorded(r);
  return fit;
}

counter_ceilings made_up_counters() {
  counter_ceilings k;
  k.ncu = "2025.3.1.0 (build 36398880)";
  k.copies.push_back({1, 1, 4 * mib, 4 * mib, "u2 t256 cs", 4.2e6, 128, 0, 0, 41.5, 7.25, 5.5});
  k.copies.push_back(
      {2, 2, 256 * mib, 256 * mib, "u8 t256 cs", 268440000, 640, 242000000, 32000, 88, 9.6, 130});
  k.residue_bytes = {25.5e6, 24.9e6, 26.1e6};
  k.noise_dram_read = 2560;
  k.noise_l2_read_sectors = 12;
  return k;
}

ceilings made_up() {
  ceilings c;
  c.run = {"20260101T000000Z-00000001",
           "2026-01-01T00:00:00Z",
           "0123",
           false,
           "sha256:00",
           "13.0.88",
           "-O3"};
  c.device = {"h200", "NVIDIA H200", "9.0", 132, 62914560, "580.159.04"};
  c.sm_mhz = {1755, 1980, 1980};
  c.launch_stream_us = 2.1;
  c.launch_graph_node_us = 0.94;
  c.empty_kernel_us = 0.95;
  c.chain_load_us = 0.612;
  c.chain_reduce_us = 0.0513;
  for (const auto& [reads, writes] : {std::pair{1, 1}, std::pair{2, 1}}) {
    const auto points = line(reads, writes, 1, 4000,
                             {{mib, 1.02}, {8 * mib, 0.97}, {64 * mib, 1.01}, {512 * mib, 1}});
    c.floors.insert(c.floors.end(), points.begin(), points.end());
    c.fits.push_back(rounded(fit_floor(points)));
  }
  c.l2_points = {{mib, 5400}, {30 * mib, 5600}, {45 * mib, 4500}, {60 * mib, 4300}};
  c.l2_gb_per_s = 5500;
  c.l2_edge_bytes = 45 * mib;
  c.fma_tflops = {60.5, 60.25, 61};
  c.special_gops = {4100, 4090, 4110};
  c.tensor_bf16_tflops = {610, 600, 615};
  c.counters = made_up_counters();
  return c;
}

/// The record after replacing `what`, which must be in it, by `with`.
ceilings read_changed(const std::string& what, const std::string& with) {
  std::string text = write_ceilings(made_up());
  const auto at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  text.replace(at, what.size(), with);
  const scratch_tree tree("ceilings");
  const std::string path = tree.str() + "/ceilings.yaml";
  capstone::tools::atomic_write(path, text);
  return read_ceilings(path);
}

std::string complaint(const std::string& what, const std::string& with) {
  try {
    read_changed(what, with);
  } catch (const record_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What `probe` would show under the profiler, a value a metric for the empty kernel and each copy.
struct made_up_profile {
  std::vector<probed_copy> copies = {{1, 1, 8 * mib, "u2 t256 cs"},
                                     {1, 1, 256 * mib, "u4 t256 cs"}};
  ncu_table core, pipes;

  made_up_profile() {
    core.metrics = core_metrics(90);
    pipes.metrics = pipes_metrics(90);
    for (int at = 0; at < 4; ++at) {
      const int kernel = at < 2 ? 0 : at - 1;  // which copy, from 1
      for (int i = 0; i < probe_launches; ++i) {
        const char* name = at == 0 ? "_ZN12_GLOBAL__N_112empty_kernelEv"
                           : at == 1 ? "_ZN12_GLOBAL__N_113tensor_kernelEiPf"
                                       : "_ZN12_GLOBAL__N_113stream_kernelILi1ELi1EE";
        core.rows.push_back({name, "7", {}, {}, std::vector<double>(core.metrics.size(), 1)});
        pipes.rows.push_back({name, "7", {}, {}, std::vector<double>(pipes.metrics.size(), 1)});
        const double bytes = kernel == 0 ? 0 : double(copies[std::size_t(kernel - 1)].bytes) / 2;
        const double residue = kernel == 2 ? 25e6 + 1e5 * i : bytes;
        set(core, "dram__bytes_read.sum", bytes + (kernel == 0 ? 500.0 * i : 32.0 * i));
        set(core, "dram__bytes_write.sum", bytes - residue);
        set(core, "dram__throughput.avg.pct_of_peak_sustained_elapsed", 30.0 * kernel);
        set(core, "lts__t_sectors_srcunit_tex_op_read.sum", kernel == 0 ? i : bytes / 32);
        set(core, "lts__t_sectors_srcunit_tex_op_write.sum", bytes / 32);
        set(core, "gpu__time_duration.sum", 1500 + bytes / 2);
        set(core, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", at == 1 ? 62.5 : 0);
        set(pipes, "sm__throughput.avg.pct_of_peak_sustained_elapsed", 4.0 * kernel + 0.1 * i);
      }
    }
  }
  static void set(ncu_table& table, const std::string& metric, double value) {
    for (std::size_t i = 0; i < table.metrics.size(); ++i)
      if (table.metrics[i] == metric) table.rows.back().values[i] = value;
  }
  counter_ceilings read() const { return counters_from(copies, core, pipes, 90, 62914560); }
  std::string complaint() const {
    try {
      read();
    } catch (const ncu_error& error) {
      return error.what();
    }
    return "";
  }
};

}  // namespace

TEST_CASE("ceilings: written, read and written again they are the same text") {
  ceilings c = made_up();
  const std::string text = write_ceilings(c);
  const scratch_tree tree("ceilings");
  const std::string path = tree.str() + "/ceilings.yaml";
  capstone::tools::atomic_write(path, text);
  const ceilings back = read_ceilings(path);
  CHECK(write_ceilings(back) == text);
  CHECK(back.floors.size() == 8);
  CHECK(back.floors[5].us == c.floors[5].us);
  CHECK(back.fits[1].residuals == c.fits[1].residuals);
  CHECK(back.l2_points[2].bytes == 45 * mib);
  CHECK(back.special_gops.high == 4110);
  REQUIRE(back.counters);
  CHECK(back.counters->copies[1].dram_write == 242000000);
  CHECK(back.counters->residue_bytes.low == 24.9e6);
  CHECK(back.counters->noise_l2_read_sectors == 12);
  CHECK(back.why_no_counters == "");

  c.counters.reset();
  CHECK_THROWS_AS(write_ceilings(c), std::invalid_argument);  // no reason
  c.why_no_counters = "ncu was not found";
  capstone::tools::atomic_write(path, write_ceilings(c));
  CHECK_FALSE(read_ceilings(path).counters);
  CHECK(read_ceilings(path).why_no_counters == "ncu was not found");
  CHECK(write_ceilings(read_ceilings(path)) == write_ceilings(c));
}

TEST_CASE("ceilings: a record that contradicts itself or says more is an error with its key") {
  CHECK(complaint("capstone-ceilings/1", "capstone-ceilings/9") != "");
  CHECK(has(complaint("note: \"\"", "note: \"\"\nextra: 1"), "extra"));
  CHECK(has(complaint("sm_mhz: [1755, 1980, 1980]", "sm_mhz: [1980, 1755, 1980]"), "sm_mhz"));
  CHECK(has(complaint("stream_us: 2.1", "stream_us: 0"), "stream_us"));
  CHECK(has(complaint("load: 0.612", "load: -1"), "load"));
  CHECK(
      has(complaint("{reads: 1, writes: 1, bytes: 8388608", "{reads: 1, writes: 1, bytes: 1048576"),
          "bytes"));
  CHECK(has(complaint("edge_bytes: 47185920", "edge_bytes: 62914560"), "edge_bytes"));
  CHECK(has(complaint("value: 610", "value: 700"), "value"));
  CHECK(has(complaint("why_no_counters: \"\"", "why_no_counters: \"none\""), "why_no_counters"));
  CHECK(has(complaint("dram_pct: 88", "dram_pct: 188"), "dram_pct"));
  CHECK(has(complaint("residue_bytes: {median: 25500000", "residue_bytes: {median: 27500000"),
            "median"));
  CHECK(read_changed("value: 610", "value: 611").tensor_bf16_tflops.median ==
        611);  // that one is consistent
}

TEST_CASE("ceilings: a fit that its floors do not say is an error") {
  const floor_fit fit = made_up().fits[0];
  const auto field = [](const char* key, double value) {
    return std::string(key) + ": " + capstone::tools::format_double(value);
  };
  CHECK(has(complaint(field("gb_per_s", fit.gb_per_s), field("gb_per_s", fit.gb_per_s * 1.01)),
            "gb_per_s"));
  CHECK(has(complaint(field("fixed_us", fit.fixed_us), field("fixed_us", fit.fixed_us + 0.1)),
            "fixed_us"));
  CHECK(has(complaint(field("worst_residual", fit.worst_residual), "worst_residual: 0.001"),
            "worst_residual"));
  CHECK(has(complaint("residuals: [", "residuals: [0.5, "), "residuals"));
  CHECK(has(complaint("fixed_us", "fixed_ms"), "fixed"));
  // A mix with floors and without a fit.
  ceilings c = made_up();
  c.fits.pop_back();
  const scratch_tree tree("ceilings");
  const std::string path = tree.str() + "/ceilings.yaml";
  capstone::tools::atomic_write(path, write_ceilings(c));
  CHECK_THROWS_AS(read_ceilings(path), record_error);
}

TEST_CASE("ceilings: the fit finds the line that points lie on, and what they miss it by") {
  const auto exact = fit_floor(line(2, 2, 1.25, 4200, {{65536, 1}, {8 * mib, 1}, {1024 * mib, 1}}));
  CHECK(exact.reads == 2);
  CHECK(exact.fixed_us == doctest::Approx(1.25).epsilon(1e-3));
  CHECK(exact.gb_per_s == doctest::Approx(4200).epsilon(1e-4));
  CHECK(exact.worst_residual < 1e-3);

  // 2, 2, 4 us at 1, 2, 3 GB. Minimising sum ((f + s x) / t - 1)^2 by hand: weights 4, 4, 1 (of
  // 1/16), sums w 9, wx 15, wxx 29, wt 20, wxt 36; s = (9*36 - 15*20) / (9*29 - 15*15) = 2/3 us a
  // GB, f = (20 - 10) / 9 = 10/9 us.
  std::vector<floor_point> points;
  for (const auto& [gb, us] : {std::pair{1, 2.0}, std::pair{2, 2.0}, std::pair{3, 4.0}})
    points.push_back({1, 1, gb * std::int64_t{1000000000}, us, us, us, ""});
  const floor_fit fit = fit_floor(points);
  CHECK(fit.fixed_us == doctest::Approx(10.0 / 9));
  CHECK(fit.gb_per_s == doctest::Approx(1.5e6));  // 1.5 GB a us
  REQUIRE(fit.residuals.size() == 3);
  CHECK(fit.residuals[0] == doctest::Approx(16.0 / 18 - 1));
  CHECK(fit.residuals[1] == doctest::Approx(22.0 / 18 - 1));
  CHECK(fit.residuals[2] == doctest::Approx(28.0 / 36 - 1));
  CHECK(fit.worst_residual == doctest::Approx(2.0 / 9));
}

TEST_CASE("ceilings: what no line can be fitted to is refused by name") {
  CHECK_THROWS_AS(fit_floor({}), std::invalid_argument);
  auto points = line(1, 1, 1, 4000, {{mib, 1}, {mib, 1.1}});
  CHECK_THROWS_AS(fit_floor(points), std::invalid_argument);  // one size
  points = line(1, 1, 1, 4000, {{mib, 1}, {8 * mib, 1}});
  points[1].writes = 2;
  CHECK_THROWS_AS(fit_floor(points), std::invalid_argument);  // two mixes
  points = line(1, 1, 1, 4000, {{mib, 1}, {8 * mib, 1}});
  points[0].us = 0;
  CHECK_THROWS_AS(fit_floor(points), std::invalid_argument);
  points[0].us = points[1].us * 2;
  CHECK_THROWS_AS(fit_floor(points), std::invalid_argument);  // more bytes in less time
}

TEST_CASE("ceilings: floors are read between sizes, beyond them and for other mixes") {
  ceilings c;
  c.floors = line(1, 1, 1, 4000, {{mib, 1.2}, {64 * mib, 1}, {512 * mib, 1.1}});
  const auto uneven = line(3, 1, 1, 2000, {{mib, 1}, {64 * mib, 1}});
  c.fits = {fit_floor(c.floors), fit_floor(uneven)};
  c.floors.insert(c.floors.end(), uneven.begin(), uneven.end());
  const auto at = [&](std::int64_t bytes) { return floor_us(c, 1, 1, bytes); };
  // At the calibrated sizes what was measured; halfway between two the mean.
  CHECK(at(mib) == doctest::Approx(c.floors[0].us));
  CHECK(at(64 * mib) == doctest::Approx(c.floors[1].us));
  CHECK(at(512 * mib) == doctest::Approx(c.floors[2].us));
  CHECK(at(288 * mib) == doctest::Approx((c.floors[1].us + c.floors[2].us) / 2));
  // Beyond them the fit's shape, which meets the last point and grows.
  const floor_fit& fit = c.fits[0];
  const auto fitted = [&](double bytes) { return fit.fixed_us + bytes / (fit.gb_per_s * 1e3); };
  CHECK(at(1024 * mib) ==
        doctest::Approx(c.floors[2].us * fitted(1024.0 * mib) / fitted(512.0 * mib)));
  CHECK(at(512 * mib + 16) > at(512 * mib));
  CHECK(at(1024) == doctest::Approx(c.floors[0].us * fitted(1024) / fitted(double(mib))));
  CHECK(at(1024) < at(mib));
  CHECK(at(0) > 0);
  // Mixes that were not calibrated.
  CHECK(floor_us(c, 2, 2, 64 * mib) == doctest::Approx(c.floors[1].us));
  CHECK(floor_us(c, 1, 2, 64 * mib) == doctest::Approx(c.floors[1].us));
  CHECK(floor_us(c, 3, 1, 64 * mib) == doctest::Approx(uneven[1].us));
  CHECK(floor_us(c, 4, 1, 64 * mib) == doctest::Approx(uneven[1].us));
  CHECK(floor_us(c, 1, 0, 64 * mib) == doctest::Approx(uneven[1].us));
  CHECK_THROWS_AS(floor_us(c, 0, 0, mib), std::invalid_argument);
  CHECK_THROWS_AS(floor_us(c, 1, 1, -1), std::invalid_argument);
  CHECK_THROWS_AS(floor_us({}, 1, 1, mib), std::invalid_argument);
}

TEST_CASE("calibrate: plateau and edge of the L2") {
  const std::vector<l2_point> points = {{mib, 5000},      {2 * mib, 5600},  {30 * mib, 5500},
                                        {40 * mib, 4500}, {60 * mib, 4300}, {120 * mib, 4000}};
  CHECK(l2_plateau(points, 60 * mib) == 5500);
  CHECK(l2_edge(points, 5500) == 40 * mib);  // 80 % are 4400
  CHECK(l2_edge(points, 1e6) == 0);
  CHECK_THROWS_AS(l2_plateau(points, mib), std::invalid_argument);
}

TEST_CASE("calibrate: the host is refused") {
  CHECK(calibrate({}, capstone::tools::open_device("host")) == 2);
  CHECK(probe(capstone::tools::open_device("host"), "1,1,1048576,u1+t128") == 2);
}

TEST_CASE("probe: a plan is read as it was written, and nothing else is") {
  const std::vector<probed_copy> copies = {{1, 1, 24576, "u1 t128"},
                                           {2, 2, 1024 * mib, "u8 t256 persistent cs"}};
  const std::string plan = write_plan(copies);
  CHECK(plan == "1,1,24576,u1+t128/2,2,1073741824,u8+t256+persistent+cs");
  CHECK(read_plan(plan) == copies);
  for (const char* wrong :
       {"", "1,1,24576", "1,1,24576,u1+t128,cs", "0,1,24576,u1", "1,1,-5,u1", "1,1,5x,u1", "/"})
    CHECK_THROWS_AS(read_plan(wrong), std::invalid_argument);
  const traffic_model even = streams_of(2, 2, mib), thirds = streams_of(2, 1, mib);
  CHECK(even.read_bytes == mib / 2);
  CHECK(even.written_streams == 2);
  CHECK(thirds.read_bytes == 2 * thirds.written_bytes);
  CHECK(thirds.written_bytes % 16 == 0);
  CHECK(thirds.read_bytes + thirds.written_bytes <= mib);
  CHECK(thirds.read_bytes + thirds.written_bytes > mib - 64);
  CHECK_THROWS_AS(streams_of(1, 0, mib), std::invalid_argument);
  CHECK_THROWS_AS(streams_of(1, 1, 16), std::invalid_argument);
}

TEST_CASE("calibrate: copies are counted with the variant that was the fastest near their size") {
  std::vector<floor_point> floors = line(1, 1, 1, 4000, {{65536, 1}, {64 * mib, 1}});
  floors[0].variant = "small";
  floors[1].variant = "large";
  const auto copies = copies_to_count(floors);
  REQUIRE(copies.size() == 9);  // none of two streams, for which no floor is there
  CHECK(copies.front() == probed_copy{1, 1, 24576, "small"});
  CHECK(copies.back() == probed_copy{1, 1, 1024 * mib, "large"});
  CHECK(copies[1].variant == "small");
}

TEST_CASE("calibrate: medians, spreads, residue and noise from a profile") {
  const counter_ceilings k = made_up_profile().read();
  REQUIRE(k.copies.size() == 2);
  CHECK(k.copies[0].read_bytes == 4 * mib);
  CHECK(k.copies[0].dram_read == 4.0 * mib + 64);
  CHECK(k.copies[0].dram_read_spread == 128);
  CHECK(k.copies[0].dram_write == 0);
  CHECK(k.copies[0].duration_us == doctest::Approx(1.5 + 2.0 * mib / 1e3));
  CHECK(k.copies[1].variant == "u4 t256 cs");
  CHECK(k.copies[1].dram_pct == 60);
  CHECK(k.copies[1].sm_pct == doctest::Approx(8.2));
  CHECK(k.copies[1].dram_write_spread == 4e5);
  // Of the larger copy alone: the other one wrote less than twice the L2.
  CHECK(k.residue_bytes.median == 25.2e6);
  CHECK(k.residue_bytes.low == 25e6);
  CHECK(k.residue_bytes.high == 25.4e6);
  CHECK(k.noise_dram_read == 2000);
  CHECK(k.noise_dram_write == 0);
  CHECK(k.tensor_pct == 62.5);
  CHECK(k.noise_l2_read_sectors == 4);
}

TEST_CASE("calibrate: a profile that is not what was asked for is refused") {
  CHECK(made_up_profile().complaint() == "");
  made_up_profile p;
  p.core.rows.pop_back();
  CHECK(has(p.complaint(), "19 launches; expected 20"));
  p = {};
  p.pipes.rows.push_back(p.pipes.rows.back());
  CHECK(has(p.complaint(), "pipes profile holds 21"));
  p = {};
  std::swap(p.core.rows[4], p.core.rows[5]);
  CHECK(has(p.complaint(), "launch 4 of the core profile"));
  p = {};
  std::swap(p.copies[0], p.copies[1]);
  CHECK(has(p.complaint(), "sectors to L2"));
  p = {};
  p.core.metrics[2] = "something_else";
  CHECK(has(p.complaint(), "holds no dram__bytes_read.sum"));
  p = {};
  p.core.rows[12].values[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK(has(p.complaint(), "dram__bytes_write.sum is n/a"));
  p = {};
  CHECK_THROWS_AS(counters_from(p.copies, p.core, p.pipes, 90, 512 * mib),
                  ncu_error);  // all stays in L2
}
