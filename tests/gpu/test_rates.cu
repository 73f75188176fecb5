// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The microbenchmarks against what a GPU can physically do, and against themselves: twice the work
// takes twice the time.

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "claims/probe.hpp"
#include "core/floor.hpp"
#include "core/nvml.hpp"
#include "core/rates.hpp"
#include "tests/skip.hpp"

using namespace capstone::tools;

namespace {

constexpr std::int64_t mib = 1024 * 1024;

timing_options quick() {
  timing_options options;
  options.rounds = 10;
  options.warm_up_ms = 50;
  return options;
}

struct measured {
  double us = 0, mhz = 0;
};

/// The fastest of the samples, so that a neighbour on the machine spoils nothing.
measured measure(const device& gpu, const arm& what) {
  const timing timed = time_arms(gpu, {what}, quick());
  measured m{quantile(timed.arms[0].us, 0), 0};
  for (const int mhz : timed.arms[0].sm_mhz) m.mhz = std::max(m.mhz, static_cast<double>(mhz));
  if (m.mhz == 0) {
    int khz = 0;
    check_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, gpu.ordinal),
               "the clock's limit");
    m.mhz = khz / 1e3;
  }
  return m;
}

/// Operations per clock and SM.
double rate_of(const device& gpu, pipe which, int iterations) {
  const pipe_load load(gpu, which, iterations);
  const measured m = measure(gpu, load.as_arm());
  MESSAGE("pipe " << static_cast<int>(which) << ": " << load.operations() / m.us / 1e6
                  << " Tera a second, " << m.mhz << " MHz, " << m.us << " us");
  return load.operations() / m.us / m.mhz / gpu.limits.sms;
}

double ratio_of_twice(const device& gpu, const arm& once, const arm& twice) {
  return measure(gpu, twice).us / measure(gpu, once).us;
}

}  // namespace

TEST_CASE("rates: multiply-adds lie between 30 and 102 % of two a clock and lane") {
  const device gpu = open_device("");
  if (gpu.limits.cc < 80) CAPSTONE_SKIP("lanes per SM are known from compute capability 8.0 on");
  const double lanes = gpu.limits.cc == 80 ? 64 : 128;
  const double rate = rate_of(gpu, pipe::fma, 256);
  CHECK(rate > 0.3 * 2 * lanes);
  CHECK(rate < 1.02 * 2 * lanes);
}

TEST_CASE("rates: special functions lie between 30 and 102 % of 16 a clock and SM") {
  const device gpu = open_device("");
  const double rate = rate_of(gpu, pipe::special, 128);
  CHECK(rate > 0.3 * 16);
  CHECK(rate < 1.02 * 16);
}

TEST_CASE("rates: tensor cores lie between 30 and 102 % of what they can do") {
  const device gpu = open_device("");
  if (gpu.limits.cc != 90)
    CAPSTONE_SKIP("the tensor cores' peak is known for compute capability 9.0");
  const double peak = 4096;  // dense bf16 operations a clock and SM: 989 TFLOP/s at 1830 MHz
  const double rate = rate_of(gpu, pipe::tensor, 1024);
  CHECK(rate > 0.3 * peak);
  CHECK(rate < 1.02 * peak);
}

TEST_CASE("rates: twice the work takes twice the time") {
  const device gpu = open_device("");
  const auto twice = [&](pipe which, int iterations) {
    const pipe_load once(gpu, which, iterations), more(gpu, which, 2 * iterations);
    CHECK(more.operations() == 2 * once.operations());
    return ratio_of_twice(gpu, once.as_arm(), more.as_arm());
  };
  CHECK(twice(pipe::fma, 256) == doctest::Approx(2).epsilon(0.05));
  CHECK(twice(pipe::special, 128) == doctest::Approx(2).epsilon(0.05));
  // Tensor cores draw so much power that the clock may change between the two.
  if (gpu.limits.cc >= 80) CHECK(twice(pipe::tensor, 1024) == doctest::Approx(2).epsilon(0.15));
  const block_reduction once(gpu, 8192), more(gpu, 16384);
  CHECK(ratio_of_twice(gpu, once.as_arm(), more.as_arm()) == doctest::Approx(2).epsilon(0.05));
  const pointer_chase few(gpu, 1024), many(gpu, 2048);
  CHECK(ratio_of_twice(gpu, few.as_arm(), many.as_arm()) == doctest::Approx(2).epsilon(0.1));
}

TEST_CASE("rates: a small set is read from L2 faster than one that does not fit, from DRAM") {
  const device gpu = open_device("");
  const auto gb_per_s = [&](std::int64_t bytes) {
    const l2_load load(gpu, bytes);
    return load.bytes_per_call() / measure(gpu, load.as_arm()).us / 1e3;
  };
  const double inside = gb_per_s(4 * mib), outside = gb_per_s(gpu.limits.l2_bytes / 512 * 512 * 8);
  MESSAGE("4 MB: " << inside << " GB/s, eight times the L2: " << outside << " GB/s");
  CHECK(inside > outside);
  CHECK(inside < 40000);
  CHECK_THROWS_AS(l2_load(gpu, 1000), std::invalid_argument);
}

TEST_CASE("rates: a dependent load from DRAM takes 0.2 to 3 us, a reduction less than 1") {
  const device gpu = open_device("");
  const pointer_chase chase(gpu, 1024);
  CHECK(chase.bytes() > 4 * gpu.limits.l2_bytes);
  const double load = measure(gpu, chase.as_arm()).us / 1024;
  const block_reduction reduction(gpu, 8192);
  const double reduce = measure(gpu, reduction.as_arm()).us / 8192;
  MESSAGE("load " << load << " us, reduction of a block " << reduce << " us");
  CHECK(load > 0.2);
  CHECK(load < 3);
  CHECK(reduce > 0.02);
  CHECK(reduce < 1);
}

TEST_CASE("rates: a launch takes 0.3 to 20 us, a graph's node no more than one on a stream") {
  const device gpu = open_device("");
  const double stream = median(stream_launch_us(gpu, 2000, 5)),
               node = median(graph_node_us(gpu, 2000, 5));
  const double empty = measure(gpu, empty_arm()).us;
  MESSAGE("stream " << stream << " us, graph node " << node << " us, empty kernel by the timer "
                    << empty << " us");
  CHECK(stream > 0.3);
  CHECK(stream < 20);
  CHECK(node > 0.3);
  CHECK(node < 1.1 * stream);
  CHECK(empty == doctest::Approx(node).epsilon(0.3));
}

TEST_CASE("rates: work that is none, and the host, are refused by name") {
  const device gpu = open_device(""), host = open_device("host");
  CHECK_THROWS_AS(pipe_load(gpu, pipe::fma, 0), std::invalid_argument);
  CHECK_THROWS_AS(pointer_chase(gpu, 0), std::invalid_argument);
  CHECK_THROWS_AS(block_reduction(gpu, -1), std::invalid_argument);
  CHECK_THROWS_AS(stream_launch_us(gpu, 0, 1), std::invalid_argument);
  CHECK_THROWS_AS(pipe_load(host, pipe::fma, 1), std::invalid_argument);
}

TEST_CASE("probe: every copy of a plan runs, an unknown variant is refused") {
  const device gpu = open_device("");
  const std::string variant = streaming_floor(gpu, {mib, mib, 1, 1}, 1).arms().front().name;
  CHECK(capstone::claims::probe(gpu, capstone::claims::write_plan(
                                         {{1, 1, 24576, variant}, {2, 2, 4 * mib, variant}})) == 0);
  CHECK_THROWS_AS(capstone::claims::probe(gpu, "1,1,24576,no+such"), std::invalid_argument);
}
