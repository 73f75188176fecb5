// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Kernels that cheat, for `claims` to catch: y = x / sqrt(mean(x^2) + 1e-6) in bf16, rows of 4096.
// Every variant claims the honest traffic and work; run.py says which check must catch which.

#include <capstone/detail/numeric.cuh>

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/check.cuh"
#include "core/spec.hpp"

using capstone::bf16;

namespace {

constexpr int cols = 4096, threads = 256, steps = 2, vector = 8;
constexpr float eps = 1e-6f;

union access {
  uint4 w;
  bf16 e[vector];
};

__device__ float block_sum(float sum) {
  __shared__ float parts[threads / 32];
#pragma unroll
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
#pragma unroll
  for (const float part : parts) sum += part;
  return sum;
}

enum class lie { none, writes_nothing, spills, reads_twice, low_precision };

template <lie Lie>
__device__ void row_norm(const bf16* x, bf16* y) {
  const auto* const from = reinterpret_cast<const uint4*>(x + std::int64_t(blockIdx.x) * cols) + threadIdx.x;
  auto* const to = reinterpret_cast<uint4*>(y + std::int64_t(blockIdx.x) * cols) + threadIdx.x;
  access v[steps];
  float sum = 0;
  __half low_sum = 0;
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    v[s].w = from[s * threads];
    for (const bf16 e : v[s].e) {
      const float f = __bfloat162float(e);
      if (Lie == lie::low_precision) low_sum = __hadd(low_sum, __float2half(f * f));
      else sum = fmaf(f, f, sum);
    }
  }
  if (Lie == lie::low_precision) sum = __half2float(low_sum);
  volatile float spilled[steps * vector];
  if (Lie == lie::spills)
    for (int i = 0; i < steps * vector; ++i) spilled[(i + threadIdx.x) % (steps * vector)] = __bfloat162float(v[i / vector].e[i % vector]);
  const float scale = rsqrtf(block_sum(sum) * (1.0f / cols) + eps);
  if (Lie == lie::writes_nothing && scale > 0) return;
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    if (Lie == lie::reads_twice)
      asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[s].w.x), "=r"(v[s].w.y), "=r"(v[s].w.z), "=r"(v[s].w.w) : "l"(from + s * threads));
    access out;
#pragma unroll
    for (int i = 0; i < vector; ++i) {
      const int at = s * vector + i;
      const float f = Lie == lie::spills ? spilled[(at + threadIdx.x) % (steps * vector)] : __bfloat162float(v[s].e[i]);
      out.e[i] = __float2bfloat16_rn(f * scale);
    }
    to[s * threads] = out.w;
  }
}

}  // namespace

// `extern "C"`: the names in the machine code are then these.
#define LIAR_KERNEL(name, which) \
  extern "C" __global__ void __launch_bounds__(threads) name(const bf16* x, bf16* y) { row_norm<which>(x, y); }
LIAR_KERNEL(liar_honest, lie::none)
LIAR_KERNEL(liar_writes_nothing, lie::writes_nothing)
LIAR_KERNEL(liar_spills, lie::spills)
LIAR_KERNEL(liar_reads_twice, lie::reads_twice)
LIAR_KERNEL(liar_low_precision, lie::low_precision)

extern "C" __global__ void liar_sums(const bf16* x, float* sums) {
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += threads) {
    const float f = __bfloat162float(x[std::int64_t(blockIdx.x) * cols + c]);
    sum = fmaf(f, f, sum);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
extern "C" __global__ void liar_scale(const bf16* x, const float* sums, bf16* y) {
  const float scale = rsqrtf(sums[blockIdx.x] * (1.0f / cols) + eps);
  for (int c = threadIdx.x; c < cols; c += threads) {
    const std::int64_t at = std::int64_t(blockIdx.x) * cols + c;
    y[at] = __float2bfloat16_rn(__bfloat162float(x[at]) * scale);
  }
}

namespace capstone::tools {
namespace {

using stream_t = cudaStream_t;
using kernel_t = void (*)(const bf16*, bf16*);

struct call {
  const bf16* x;
  bf16* y;
  unsigned rows;
  stream_t stream;
};

void launch(kernel_t kernel, const call& c) { kernel<<<c.rows, threads, 0, c.stream>>>(c.x, c.y); }

void unfused(const call& c) {
  static float* sums = nullptr;
  static unsigned room = 0;
  if (room < c.rows) {
    cudaFree(sums);
    check_cuda(cudaMalloc(&sums, c.rows * sizeof(float)), "cudaMalloc");
    room = c.rows;
  }
  liar_sums<<<c.rows, threads, 0, c.stream>>>(c.x, sums);
  liar_scale<<<c.rows, threads, 0, c.stream>>>(c.x, sums, c.y);
}

struct row_by_thread {
  const bf16* x;
  bf16* y;
  __device__ void operator()(std::int64_t row) const {
    double sum = 0;  // one thread adds a row, and the honest tolerance is a tree's
    for (int c = 0; c < cols; ++c) {
      const double f = double(__bfloat162float(x[row * cols + c]));
      sum += f * f;
    }
    const float scale = rsqrtf(float(sum / cols) + eps);
    for (int c = 0; c < cols; ++c) y[row * cols + c] = __float2bfloat16_rn(__bfloat162float(x[row * cols + c]) * scale);
  }
};

void by_library(const call& c) {
  const thrust::counting_iterator<std::int64_t> first(0);
  thrust::for_each(thrust::cuda::par_nosync.on(c.stream), first, first + c.rows, row_by_thread{c.x, c.y});
}

void on_other_stream(call c) {
  static stream_t other = [] {
    stream_t s;
    check_cuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return s;
  }();
  c.stream = other;
  launch(liar_honest, c);
}

void cached(const call& c) {
  static const void* last[2] = {};
  if (last[0] == c.x && last[1] == c.y) return;
  last[0] = c.x, last[1] = c.y;
  launch(liar_honest, c);
}

void tunes(const call& c) {
  static int calls = 0;
  if (calls++ < 4) {  // "warm-up" that is part of the first calls
    cudaEvent_t begin, end;
    cudaEventCreate(&begin), cudaEventCreate(&end);
    for (const kernel_t candidate : {liar_honest, liar_reads_twice}) {
      cudaEventRecord(begin, c.stream);
      launch(candidate, c);
      cudaEventRecord(end, c.stream);
      check_cuda(cudaEventSynchronize(end), "cudaEventSynchronize");
    }
    cudaEventDestroy(begin), cudaEventDestroy(end);
    return;
  }
  launch(liar_honest, c);
}

// As of the README's rms_norm without a weight: the sum in a tree of depth steps * vector + 8 + 5.
struct reference {
  const bf16 *x, *y;
  __host__ __device__ void operator()(std::int64_t row, tally* tallies) const {
    double squares = 0;
    for (int c = 0; c < cols; ++c) {
      const double f = double(__bfloat162float(x[row * cols + c]));
      squares += f * f;
    }
    const double scale = 1 / sqrt(squares / cols + double(eps));
    const double relative = 1.01 * ((gamma_bound(steps * vector + 13) + 3 * f32_unit) / 2 + 6 * f32_unit);
    for (int c = 0; c < cols; ++c) {
      const double want = double(__bfloat162float(x[row * cols + c])) * scale;
      tallies[0].add(row, c, y[row * cols + c], want, fabs(want) * relative + 0x1p-149);
    }
  }
};

kernel_spec liar(const char* variant, const char* symbol, void (*run)(const call&)) {
  kernel_spec k;
  k.op = "liar";
  k.variant = variant;
  k.dtype = "bf16";
  k.rounding = "float32 throughout";
  k.buffers = [](const problem& p) {
    if (p.shape.at(1) != cols) throw std::invalid_argument("cols is " + std::to_string(p.shape[1]) + "; expected 4096");
    return std::vector<buffer_desc>{{"x", role::in, dtype::bf16, p.shape[0], cols, cols, 0, -1, p.data},
                                    {"y", role::out, dtype::bf16, p.shape[0], cols, cols, 0, -1, p.data}};
  };
  k.check = [](const problem& p, const pointers& in, const pointers& out, const config&, bool on_host) {
    return check_rows<1>(reference{static_cast<const bf16*>(in[0]), static_cast<const bf16*>(out[1])}, p.shape[0], {"y"}, false, on_host);
  };
  k.traffic = [](const problem& p) {
    const std::int64_t bytes = p.shape[0] * cols * 2;
    return traffic_model{bytes, bytes, 1, 1};
  };
  k.work = [](const problem& p, const config&) { return work_model{3.0 * double(p.shape[0]) * cols, double(p.shape[0]) * threads, 0}; };
  k.call = [run](const problem& p, const pointers& at, void* stream) -> std::string {
    run({static_cast<const bf16*>(at[0]), static_cast<bf16*>(at[1]), unsigned(p.shape[0]), static_cast<stream_t>(stream)});
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? "" : cudaGetErrorString(error);
  };
  k.call_host = [](const problem&, const pointers&) -> std::string { return "liars run on a GPU only"; };
  k.choice = [](const problem&, const pointers&, const device_limits&) { return choice_info{"default", {}, false}; };
  k.default_config = [](const problem&) { return config{}; };
  k.plan = k.default_plan = [](const problem&, const pointers&, const config&, const device_limits&) -> launch_plan {
    throw std::invalid_argument("liar has no config; expected a kernel with something to tune");
  };
  k.launched = [symbol](const problem& p, const pointers&, const device_limits&) {
    return launch_identity{symbol, unsigned(p.shape[0]), threads, 1, 0, true};
  };
  return k;
}

const register_op registered([] {
  op o;
  o.name = "liar";
  o.header = "tests/liars/liars.cu";
  o.dims = {"rows", "cols"};
  o.suites = {{"llm", {{{16384, cols}}}}};
  const auto add = [&](const char* variant, const char* symbol, void (*run)(const call&)) { o.kernels.push_back(liar(variant, symbol, run)); };
  add(".honest", "liar_honest", [](const call& c) { launch(liar_honest, c); });
  add(".writes_nothing", "liar_writes_nothing", [](const call& c) { launch(liar_writes_nothing, c); });
  add(".spills", "liar_spills", [](const call& c) { launch(liar_spills, c); });
  add(".reads_twice", "liar_reads_twice", [](const call& c) { launch(liar_reads_twice, c); });
  add(".low_precision", "liar_low_precision", [](const call& c) { launch(liar_low_precision, c); });
  add(".unfused", "liar_honest", unfused);
  add(".library", "liar_honest", by_library);
  add(".other_stream", "liar_honest", [](const call& c) { on_other_stream(c); });
  add(".cached", "liar_honest", cached);
  add(".tunes", "liar_honest", tunes);
  return o;
}());

}  // namespace
}  // namespace capstone::tools
