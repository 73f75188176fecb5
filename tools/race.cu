// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// What tools/race needs beside PyTorch, from Python: the streaming floor of `claims bench`, the frozen
// config a call takes, clocks and power, and two kernels for its timer. Functions that can fail return null,
// or the sentence of the failure (the thread's own, until its next call).

#include <capstone/rms_norm.cuh>

#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "core/floor.hpp"
#include "core/nvml.hpp"
#include "core/row_spec.hpp"

namespace {

using namespace capstone::tools;

thread_local std::string sentence;

template <class Work>
const char* guarded(Work work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception& error) {
    sentence = error.what();
    return sentence.c_str();
  }
}

struct gpu_here {
  device where;
  std::optional<nvml> clocks;
};
std::unique_ptr<gpu_here> gpu;

struct floor_here {
  streaming_floor streams;  // the arms refer to it: it stays where it is
  std::vector<arm> fastest = {};
};

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

__global__ void delay_kernel(unsigned long long ns) {
  const unsigned long long begin = now_ns();
  while (now_ns() - begin < ns) {
  }
}

template <class T>
choice_info choice_of(const void* const (&at)[5], long long rows, long long cols) {
  const auto& d = gpu->where.limits;
  const capstone::config_choice c = capstone::rms_norm_query<T>(
      {.x = static_cast<const T*>(at[0]),
       .residual = static_cast<const T*>(at[1]),
       .weight = static_cast<const T*>(at[2]),
       .y = static_cast<T*>(const_cast<void*>(at[3])),
       .residual_out = static_cast<T*>(const_cast<void*>(at[4])),
       .rows = rows,
       .cols = cols},
      {d.cc, d.sms, d.l2_bytes});
  constexpr const char* words[] = {"exact", "range", "other_device", "default"};
  return {words[int(c.match)], from_row_config(c.config), c.fallback};
}

}  // namespace

extern "C" {

const char* race_open() {
  return guarded([] {
    gpu = std::make_unique<gpu_here>();
    gpu->where = open_device("");
    gpu->clocks.emplace(gpu->where);
  });
}

/// "h200\tNVIDIA H200\t9.0\t132\t62914560\t580.159.04\t0": id, name, cc, SMs, L2, driver, other processes.
const char* race_device() {
  const device& d = gpu->where;
  sentence = d.id + "\t" + d.name + "\t" + std::to_string(d.limits.cc / 10) + "." +
             std::to_string(d.limits.cc % 10) + "\t" + std::to_string(d.limits.sms) + "\t" +
             std::to_string(d.limits.l2_bytes) + "\t" + d.driver + "\t" +
             std::to_string(gpu->clocks->other_processes());
  return sentence.c_str();
}

/// "exact\t0\tlanes=256,elements=8,...": how the config of this call is found, whether it is a fallback, and
/// its fields. dtype is f32, f16 or bf16, weights of the same.
const char* race_choice(const char* dtype, const void* x, const void* residual, const void* weight,
                        const void* y, const void* residual_out, long long rows, long long cols) {
  const std::string name = dtype;
  const void* const at[] = {x, residual, weight, y, residual_out};
  const choice_info c = name == "bf16"  ? choice_of<capstone::bf16>(at, rows, cols)
                        : name == "f16" ? choice_of<capstone::f16>(at, rows, cols)
                                        : choice_of<float>(at, rows, cols);
  sentence = c.match + "\t" + (c.fallback ? "1" : "0") + "\t";
  const std::vector<axis> axes = row_axes();
  for (std::size_t i = 0; i < axes.size(); ++i)
    sentence += (i == 0 ? "" : ",") + axes[i].name + "=" + axes[i].value_token(c.values[i]);
  return sentence.c_str();
}

/// Finds the three fastest of the floor's kernels in a short race; `*floor` is theirs until closed.
const char* race_floor_open(long long read_bytes, long long written_bytes, int reads, int writes, int sets,
                            void** floor) {
  return guarded([&] {
    traffic_model traffic;
    traffic.read_bytes = read_bytes, traffic.written_bytes = written_bytes;
    traffic.read_streams = reads, traffic.written_streams = writes;
    timing_options options;
    options.sets = sets;
    options.bytes_per_call = read_bytes + written_bytes;
    options.warm_up_ms = 50;
    std::unique_ptr<floor_here> made(new floor_here{streaming_floor(gpu->where, traffic, sets)});
    made->fastest = fastest_arms(gpu->where, made->streams.arms(), options, 5, 3);
    *floor = made.release();
  });
}
const char* race_floor_name(void* floor, int which) {
  return static_cast<floor_here*>(floor)->fastest.at(static_cast<std::size_t>(which)).name.c_str();
}
const char* race_floor_run(void* floor, int which, int set, void* stream) {
  return guarded([&] {
    static_cast<floor_here*>(floor)->fastest.at(static_cast<std::size_t>(which)).run(set, stream);
  });
}
void race_floor_close(void* floor) { delete static_cast<floor_here*>(floor); }

/// Leaves L2 full of clean lines: reads `bytes` of a zeroed buffer whose first 256 bytes are the sink.
void race_evict(void* buffer, long long bytes, void* stream) {
  evict_kernel<<<gpu->where.limits.sms * 8, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(static_cast<char*>(buffer) + 256), (bytes - 256) / 16,
      static_cast<unsigned*>(buffer));
}
/// Keeps the stream busy while the host enqueues what is timed.
void race_delay(unsigned long long ns, void* stream) {
  delay_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(ns);
}
int race_sm_mhz() { return gpu->clocks->sm_mhz(); }
double race_watts() { return gpu->clocks->watts(); }

}  // extern "C"
