// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The timer against kernels whose time is known, and the floor against the bytes that it claims.

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>

#include "core/floor.hpp"
#include "core/nvml.hpp"
#include "core/timer.hpp"
#include "tests/skip.hpp"

using namespace capstone::tools;

namespace {

__global__ void empty_kernel() {}

__global__ void spin_kernel(unsigned long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

__global__ void copy_kernel(const uint4* from, uint4* to, long long count) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step)
    to[i] = from[i];
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

arm spinning(unsigned long long us) {
  return {"spin", [us](int, void* s) { spin_kernel<<<1, 1, 0, stream_of(s)>>>(us * 1000); }};
}

/// Copies `bytes` from the first to the second half of each set's memory.
struct copies {
  long long bytes;
  std::vector<memory> sets;

  copies(const device& where, long long size, int count) : bytes(size) {
    for (int i = 0; i < count; ++i) {
      sets.emplace_back(where, static_cast<std::size_t>(2 * size));
      check_cuda(cudaMemset(sets.back().data(), 0x5a, sets.back().size()), "cudaMemset");
    }
  }
  arm as_arm() const {
    return {"copy", [this](int set, void* s) {
              char* data = sets[static_cast<std::size_t>(set)].data();
              const auto blocks = static_cast<unsigned>(std::min(bytes / 16 / 256 + 1, 100000LL));
              copy_kernel<<<blocks, 256, 0, stream_of(s)>>>(reinterpret_cast<const uint4*>(data),
                                                            reinterpret_cast<uint4*>(data + bytes),
                                                            bytes / 16);
            }};
  }
};

double median_us(const timing& timed, std::size_t i = 0) { return median(timed.arms.at(i).us); }

}  // namespace

TEST_CASE("timer: a kernel that spins a known time is measured within 2 %") {
  const device gpu = open_device("");
  timing_options options;
  options.rounds = 10;
  options.sample_us = 4000;
  const timing by_events = time_arms(gpu, {spinning(400)}, options);
  CHECK(by_events.timer == timer_kind::events);
  CHECK(median_us(by_events) == doctest::Approx(400).epsilon(0.02));
  options.graph_below_us = 1e6;
  const timing by_graph = time_arms(gpu, {spinning(400)}, options);
  CHECK(by_graph.timer == timer_kind::graph);
  CHECK(median_us(by_graph) == doctest::Approx(400).epsilon(0.02));
  MESSAGE("400 us spin: events " << median_us(by_events) << " us, graph " << median_us(by_graph)
                                 << " us");
}

TEST_CASE("timer: an empty kernel takes a little, and replays of it go by the graph") {
  const device gpu = open_device("");
  timing_options options;
  options.rounds = 10;
  const timing timed = time_arms(
      gpu, {{"empty", [](int, void* s) { empty_kernel<<<1, 32, 0, stream_of(s)>>>(); }}}, options);
  CHECK(timed.timer == timer_kind::graph);
  CHECK(timed.calls_per_sample > 10);
  CHECK(median_us(timed) > 0.1);
  CHECK(median_us(timed) < 10);
  MESSAGE("empty kernel: " << median_us(timed) << " us");
}

TEST_CASE("timer: a copy of known bytes lies between half and all of the peak bandwidth") {
  const device gpu = open_device("");
  int khz = 0, bits = 0;
  cudaDeviceGetAttribute(&khz, cudaDevAttrMemoryClockRate, gpu.ordinal);
  cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, gpu.ordinal);
  if (khz == 0 || bits == 0) CAPSTONE_SKIP("the driver does not tell the memory's clock and width");
  const double peak = 2.0 * khz * 1e3 * bits / 8;
  const long long bytes = 1ll << 28;
  timing_options options;
  options.rounds = 10;
  options.bytes_per_call = 2 * bytes;
  options.sets = sets_for_cold(gpu, options.bytes_per_call, 2 * bytes, 4);
  const copies copy(gpu, bytes, options.sets);
  const timing timed = time_arms(gpu, {copy.as_arm()}, options);
  const double rate = 2.0 * static_cast<double>(bytes) / (median_us(timed) * 1e-6);
  MESSAGE("copy: " << rate / 1e9 << " GB/s of " << peak / 1e9);
  CHECK(rate > 0.5 * peak);
  CHECK(rate < peak);
}

TEST_CASE("timer: a small copy is slower cold than hot, rotated or evicted") {
  const device gpu = open_device("");
  const long long bytes = gpu.limits.l2_bytes / 16 / 256 * 256;
  timing_options options;
  options.rounds = 10;
  options.sets = sets_for_cold(gpu, 2 * bytes, 2 * bytes, 256);
  const copies copy(gpu, bytes, options.sets);
  options.bytes_per_call = 2 * bytes;
  const timing cold = time_arms(gpu, {copy.as_arm()}, options);
  CHECK_FALSE(cold.flushed);
  CHECK(cold.calls_per_sample % options.sets == 0);
  options.sets = 4;  // too few to rotate over
  const timing evicted = time_arms(gpu, {copy.as_arm()}, options);
  CHECK(evicted.flushed);
  CHECK(evicted.calls_per_sample <= 4);
  options.sets = 1;
  options.bytes_per_call = 0;
  const timing hot = time_arms(gpu, {copy.as_arm()}, options);
  CHECK_FALSE(hot.flushed);
  MESSAGE("copy of " << bytes << " bytes: cold " << median_us(cold) << ", evicted "
                     << median_us(evicted) << ", hot " << median_us(hot) << " us");
  CHECK(median_us(hot) < median_us(cold));
  CHECK(median_us(hot) < median_us(evicted));
}

TEST_CASE("timer: the A/A twin's ratio is 1") {
  const device gpu = open_device("");
  const long long bytes = 1 << 26;
  timing_options options;
  options.bytes_per_call = 2 * bytes;
  options.sets = sets_for_cold(gpu, options.bytes_per_call, 2 * bytes, 8);
  const copies copy(gpu, bytes, options.sets);
  const timing timed = time_arms(gpu, {copy.as_arm(), copy.as_arm()}, options);
  const ratio_band twin = paired_ratio(timed.arms[1].us, timed.arms[0].us, 1);
  MESSAGE("A/A: " << twin.median << " [" << twin.low << ", " << twin.high << "]");
  CHECK(twin.low < 1.005);
  CHECK(twin.high > 0.995);
}

TEST_CASE("timer: a launch that fails is an error with CUDA's name and the arm's") {
  const device gpu = open_device("");
  const arm bad{"bad", [](int, void* s) { empty_kernel<<<1, 4096, 0, stream_of(s)>>>(); }};
  std::string text;
  try {
    time_arms(gpu, {bad}, {});
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  CHECK(text.find("bad") != std::string::npos);
  CHECK(text.find("cudaErrorInvalid") != std::string::npos);
}

TEST_CASE("timer: asking for clock and power is cheap beside a sample") {
  const nvml driver(open_device(""));
  if (!driver.available()) CAPSTONE_SKIP("no NVML here");
  constexpr int queries = 50;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < queries; ++i) {
    CHECK(driver.sm_mhz() > 0);
    CHECK(driver.watts() >= 0);
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
  MESSAGE("clock and power: " << spent.count() / queries << " ms; " << driver.sm_mhz() << " MHz, "
                              << driver.watts() << " W, others " << driver.other_processes());
  CHECK(spent.count() / queries < 20);
}

TEST_CASE("floor: every variant reads all and writes all of its bytes") {
  const device gpu = open_device("");
  const traffic_model mixes[] = {{1000003, 1000003, 1, 1}, {2000006, 1000003, 2, 1},
                                 {2097152, 2097152, 2, 2}, {3000009, 400001, 3, 1},
                                 {3000009, 2000006, 3, 2}, {7, 7, 1, 1}};
  for (const traffic_model& mix : mixes) {
    const streaming_floor floor(gpu, mix, 1);
    REQUIRE(floor.read_size() * mix.read_streams >= static_cast<std::size_t>(mix.read_bytes));
    std::string wanted(floor.written_size(), '\0');
    for (int r = 0; r < floor.read_streams(); ++r) {
      std::string in(floor.read_size(), '\0');
      check_cuda(cudaMemcpy(in.data(), floor.read_stream(0, r), in.size(), cudaMemcpyDeviceToHost),
                 "cudaMemcpy");
      for (std::size_t i = 0; i < wanted.size(); ++i)
        wanted[i] = static_cast<char>(wanted[i] ^ in[i]);
    }
    for (const arm& variant : floor.arms()) {
      CAPTURE(variant.name);
      for (int w = 0; w < floor.written_streams(); ++w)
        check_cuda(cudaMemset(floor.written_stream(0, w), 0, wanted.size()), "cudaMemset");
      variant.run(0, nullptr);
      check_cuda(cudaDeviceSynchronize(), "the floor");
      for (int w = 0; w < floor.written_streams(); ++w) {
        std::string out(wanted.size(), '\0');
        check_cuda(
            cudaMemcpy(out.data(), floor.written_stream(0, w), out.size(), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
        CHECK(out == wanted);
      }
    }
  }
}

TEST_CASE("floor: the fastest variants come first") {
  const device gpu = open_device("");
  const traffic_model mix{1 << 26, 1 << 26, 1, 1};
  timing_options options;
  options.bytes_per_call = mix.read_bytes + mix.written_bytes;
  options.sets = sets_for_cold(gpu, options.bytes_per_call, streaming_floor::bytes_needed(mix), 8);
  const streaming_floor floor(gpu, mix, options.sets);
  const auto best = fastest_arms(gpu, floor.arms(), options, 5, 3);
  REQUIRE(best.size() == 3);
  const timing timed = time_arms(gpu, best, options);
  for (const arm_samples& a : timed.arms)
    MESSAGE(a.name << ": " << median(a.us) << " us, "
                   << static_cast<double>(options.bytes_per_call) / median(a.us) / 1e3 << " GB/s");
}
