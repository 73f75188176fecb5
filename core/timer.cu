// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/timer.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>

#include "core/nvml.hpp"

namespace capstone::tools {
namespace {

using clock = std::chrono::steady_clock;

double since_us(clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
}

/// Reads a buffer and keeps nothing: leaves L2 full of clean lines, which cost no write-back to the
/// call that evicts them (a memset would leave dirty ones).
__global__ void evict_kernel(const uint4* data, std::int64_t count, unsigned* sink) {
  unsigned seen = 0;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 v = data[i];
    seen |= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (seen == 0x9e3779b9u) *sink = seen;  // never for a zeroed buffer; keeps the loads alive
}

__device__ unsigned long long now_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

/// Keeps the stream busy while the host enqueues what is timed, so that no launch latency of the
/// host falls between the events.
__global__ void delay_kernel(unsigned long long ns) {
  const unsigned long long begin = now_ns();
  while (now_ns() - begin < ns) {
  }
}
constexpr unsigned long long delay_ns = 50'000;

class gpu_timer {
 public:
  gpu_timer(const device& where, const std::vector<arm>& arms, const timing_options& options)
      : where_(where), arms_(arms), options_(options), nvml_(where) {
    check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check_cuda(cudaEventCreate(&start_), "cudaEventCreate");
    check_cuda(cudaEventCreate(&stop_), "cudaEventCreate");
    check_cuda(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
  }

  ~gpu_timer() {
    for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    if (start_ != nullptr) cudaEventDestroy(start_);
    if (stop_ != nullptr) cudaEventDestroy(stop_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  gpu_timer(const gpu_timer&) = delete;
  gpu_timer& operator=(const gpu_timer&) = delete;

  timing run() {
    first_calls();
    warm_up();
    plan();
    timing result;
    result.timer = kind_;
    result.calls_per_sample = calls_;
    result.sets = options_.sets;
    result.flushed = flushed_;
    for (const arm& a : arms_) result.arms.push_back({a.name, {}, {}, {}});
    std::mt19937_64 random(options_.seed);
    std::vector<std::size_t> order(arms_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = 0; round < options_.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (std::size_t i : order) {
        arm_samples& samples = result.arms[i];
        samples.us.push_back(sample_us(i) / calls_);
        if (!nvml_.available()) continue;
        samples.sm_mhz.push_back(nvml_.sm_mhz());
        samples.watts.push_back(nvml_.watts());
      }
    }
    return result;
  }

 private:
  /// Every arm on every set, checked one by one: whatever a first call does (module load,
  /// attributes) is done, and an arm that fails is named.
  void first_calls() {
    for (const arm& a : arms_) {
      for (int set = 0; set < options_.sets; ++set) a.run(set, stream_);
      check_cuda(cudaGetLastError(), ("the launch of arm " + a.name).c_str());
      check_cuda(cudaStreamSynchronize(stream_), ("arm " + a.name).c_str());
    }
  }

  void warm_up() {
    const auto begin = clock::now();
    while (since_us(begin) < options_.warm_up_ms * 1000) {
      for (const arm& a : arms_) a.run(next_set(), stream_);
      check_cuda(cudaStreamSynchronize(stream_), "the warm-up");
    }
  }

  /// Timer, calls per sample and flush, from a quick estimate of the first arm.
  void plan() {
    const std::int64_t rotation = options_.sets * options_.bytes_per_call;
    flushed_ = options_.bytes_per_call > 0 && rotation < 3 * where_.limits.l2_bytes;
    constexpr int quick = 20;
    double us = timed_us([&] { enqueue(arms_[0], quick); }) / quick;
    kind_ = us < options_.graph_below_us ? timer_kind::graph : timer_kind::events;
    if (kind_ == timer_kind::graph) {  // direct launches of a short kernel time the host
      const cudaGraphExec_t graph = capture(arms_[0], quick);
      graphs_.push_back(graph);
      launch(graph);
      us = timed_us([&] { launch(graph); }) / quick;
    }
    calls_ = static_cast<int>(std::ceil(options_.sample_us / std::max(us, 0.1)));
    if (flushed_)
      calls_ = std::min(calls_, options_.sets);  // no set twice in a sample
    else if (kind_ == timer_kind::graph)         // whole rotations: a replay ends where it began
      calls_ = (calls_ + options_.sets - 1) / options_.sets * options_.sets;
    if (flushed_) {
      evicted_ = memory(where_, static_cast<std::size_t>(3 * where_.limits.l2_bytes) + 256);
      check_cuda(cudaMemset(evicted_.data(), 0, evicted_.size()), "cudaMemset");
    }
    if (kind_ != timer_kind::graph) return;
    for (cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
    graphs_.clear();
    for (const arm& a : arms_) graphs_.push_back(capture(a, calls_));
    check_cuda(cudaStreamSynchronize(stream_), "cudaGraphUpload");
  }

  cudaGraphExec_t capture(const arm& a, int calls) {
    const std::string what = "the capture of arm " + a.name;
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), what.c_str());
    for (int i = 0; i < calls; ++i) a.run(i % options_.sets, stream_);
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream_, &graph), what.c_str());
    cudaGraphExec_t exec = nullptr;
    const cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(code, what.c_str());
    check_cuda(cudaGraphUpload(exec, stream_), "cudaGraphUpload");
    return exec;
  }

  void launch(cudaGraphExec_t graph) {
    check_cuda(cudaGraphLaunch(graph, stream_), "cudaGraphLaunch");
  }

  void enqueue(const arm& a, int calls) {
    for (int i = 0; i < calls; ++i) a.run(next_set(), stream_);
  }

  /// The rotation goes on from sample to sample, over all arms, so that a set's reuse is as far
  /// apart as the sets allow.
  int next_set() { return next_ = (next_ + 1) % options_.sets; }

  double sample_us(std::size_t i) {
    if (flushed_) {
      evict_kernel<<<where_.limits.sms * 8, 256, 0, stream_>>>(
          reinterpret_cast<const uint4*>(evicted_.data() + 256),
          static_cast<std::int64_t>((evicted_.size() - 256) / sizeof(uint4)),
          reinterpret_cast<unsigned*>(evicted_.data()));
    }
    return timed_us([&] {
      if (kind_ == timer_kind::graph)
        launch(graphs_[i]);
      else
        enqueue(arms_[i], calls_);
    });
  }

  template <class Work>
  double timed_us(Work work) {
    delay_kernel<<<1, 1, 0, stream_>>>(delay_ns);
    check_cuda(cudaEventRecord(start_, stream_), "cudaEventRecord");
    work();
    check_cuda(cudaEventRecord(stop_, stream_), "cudaEventRecord");
    check_cuda(cudaGetLastError(), "a launch in a timed sample");
    check_cuda(cudaEventSynchronize(stop_), "a timed sample");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start_, stop_), "cudaEventElapsedTime");
    return ms * 1000.0;
  }

  const device& where_;
  const std::vector<arm>& arms_;
  const timing_options& options_;
  nvml nvml_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  std::vector<cudaGraphExec_t> graphs_;
  memory evicted_;
  timer_kind kind_ = timer_kind::events;
  bool flushed_ = false;
  int calls_ = 1, next_ = -1;
};

timing time_on_host(const std::vector<arm>& arms, const timing_options& options) {
  timing result;
  result.timer = timer_kind::host;
  result.sets = options.sets;
  for (const arm& a : arms) {
    result.arms.push_back({a.name, {}, {}, {}});
    for (int set = 0; set < options.sets; ++set) a.run(set, nullptr);
  }
  const auto warm = clock::now();
  while (since_us(warm) < options.warm_up_ms * 1000) arms[0].run(0, nullptr);
  const auto quick = clock::now();
  arms[0].run(0, nullptr);
  const double calls = std::ceil(options.sample_us / std::max(since_us(quick), 0.01));
  result.calls_per_sample = static_cast<int>(std::clamp(calls, 1.0, 1e6));
  std::mt19937_64 random(options.seed);
  std::vector<std::size_t> order(arms.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (int round = 0; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (std::size_t i : order) {
      const auto begin = clock::now();
      for (int call = 0; call < result.calls_per_sample; ++call)
        arms[i].run(call % options.sets, nullptr);
      result.arms[i].us.push_back(since_us(begin) / result.calls_per_sample);
    }
  }
  return result;
}

void expect_positive(const char* name, std::int64_t value) {
  if (value < 1)
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                                "; expected 1 or more");
}

}  // namespace

const char* token(timer_kind kind) {
  switch (kind) {
    case timer_kind::graph:
      return "graph";
    case timer_kind::events:
      return "events";
    case timer_kind::host:
      return "host";
  }
  return "unknown";
}

timing time_arms(const device& where, const std::vector<arm>& arms, const timing_options& options) {
  expect_positive("arms.size()", static_cast<std::int64_t>(arms.size()));
  expect_positive("sets", options.sets);
  expect_positive("rounds", options.rounds);
  if (where.is_host()) return time_on_host(arms, options);
  return gpu_timer(where, arms, options).run();
}

int sets_for_cold(const device& where, std::int64_t bytes_per_call, std::size_t set_bytes,
                  int max_sets) {
  if (where.is_host() || bytes_per_call <= 0) return 1;
  const std::int64_t needed = 3 * where.limits.l2_bytes / bytes_per_call + 1;
  const auto fitting =
      static_cast<std::int64_t>(free_memory(where) / 10 * 8 / std::max<std::size_t>(set_bytes, 1));
  return static_cast<int>(
      std::max<std::int64_t>(1, std::min({needed, fitting, std::int64_t{max_sets}})));
}

std::size_t free_memory(const device& where) {
  if (where.is_host()) {
    std::ifstream info("/proc/meminfo");
    for (std::string key, unit; info >> key;) {
      std::size_t kib = 0;
      info >> kib >> unit;
      if (key == "MemAvailable:") return kib * 1024;
    }
    return std::size_t{1} << 30;
  }
  std::size_t free = 0, total = 0;
  check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

}  // namespace capstone::tools
