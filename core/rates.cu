// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/rates.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace capstone::tools {
namespace {

constexpr int pipe_threads = 256, chains = 16;  // independent chains a thread, to hide latency
constexpr int fma_unroll = 16, special_unroll = 4, mma_unroll = 4, tiles = 8;
constexpr double mma_operations = 2.0 * 16 * 8 * 16;  // of a warp

constexpr int l2_threads = 512, l2_unroll = 8;
constexpr double l2_target = 2e9;  // bytes a call: some 400 us, so that its ramps do not count

constexpr int line_words = 16;  // of 8 bytes: a line of 128

// Results are written only where this comes out, which is as good as never; the compiler cannot
// know.
constexpr float unlikely = 1.2345678e-21f;

__global__ void empty_kernel() {}

__global__ void spin_kernel(unsigned long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}

__device__ unsigned hash(unsigned x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

/// `factor` is close to -1, so that all bits change from step to step and the values stay: data
/// that settles would draw less power than a kernel's.
__global__ void __launch_bounds__(pipe_threads)
    fma_kernel(int iterations, float factor, float summand, float* sink) {
  float x[chains];
#pragma unroll
  for (int i = 0; i < chains; ++i) x[i] = 0.001f * static_cast<float>(threadIdx.x + 1) + 0.1f * i;
#pragma unroll 1
  for (int n = 0; n < iterations; ++n) {
#pragma unroll
    for (int u = 0; u < fma_unroll; ++u)
#pragma unroll
      for (int i = 0; i < chains; ++i) x[i] = __fmaf_rn(x[i], factor, summand);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < chains; ++i) sum += x[i];
  if (sum == unlikely) *sink = sum;
}

__global__ void __launch_bounds__(pipe_threads) special_kernel(int iterations, float* sink) {
  float x[chains];
#pragma unroll
  for (int i = 0; i < chains; ++i) x[i] = 1.0f + static_cast<float>(threadIdx.x) + 0.1f * i;
#pragma unroll 1
  for (int n = 0; n < iterations; ++n) {
#pragma unroll
    for (int u = 0; u < special_unroll; ++u)
#pragma unroll
      for (int i = 0; i < chains; ++i) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x[i]));
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < chains; ++i) sum += x[i];
  if (sum == unlikely) *sink = sum;
}

/// Two bf16 of random sign, exponent (two values) and fraction: +-[0.5, 2).
__device__ unsigned bf16_pair(unsigned seed) { return (hash(seed) & 0x80ff80ffu) | 0x3f003f00u; }

__global__ void __launch_bounds__(pipe_threads) tensor_kernel(int iterations, float* sink) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  unsigned a[4][4], b[2][2];
  const unsigned seed = (blockIdx.x * blockDim.x + threadIdx.x) * 32;
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) a[i][j] = bf16_pair(seed + 4 * i + j);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) b[i][j] = bf16_pair(seed + 16 + 2 * i + j);
  float d[tiles][4] = {};
#pragma unroll 1
  for (int n = 0; n < iterations; ++n) {
#pragma unroll
    for (int u = 0; u < mma_unroll; ++u)
#pragma unroll
      for (int t = 0; t < tiles; ++t)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
            : "r"(a[t % 4][0]), "r"(a[t % 4][1]), "r"(a[t % 4][2]), "r"(a[t % 4][3]),
              "r"(b[t / 4][0]), "r"(b[t / 4][1]));
  }
  float sum = 0;
#pragma unroll
  for (int t = 0; t < tiles; ++t)
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += d[t][j];
  if (sum == unlikely) *sink = sum;
#endif
}

/// Full-entropy words, as in the floor.
__global__ void fill_kernel(unsigned* words, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    words[i] = hash(static_cast<unsigned>(i) + 1);
}

/// The grid walks over the set as one front and starts anew at its end; a front longer than the set
/// reads parts of it several times at once.
__global__ void __launch_bounds__(l2_threads)
    l2_kernel(const uint4* data, unsigned count, int loops, unsigned* sink) {
  const unsigned front = gridDim.x * blockDim.x, move = front % count;
  unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) % count;
  uint4 seen = {};
#pragma unroll 1
  for (int n = 0; n < loops; ++n) {
    uint4 v[l2_unroll];
#pragma unroll
    for (int u = 0; u < l2_unroll; ++u) {
      v[u] = __ldcg(data + at);
      at += move;
      if (at >= count) at -= count;
    }
#pragma unroll
    for (int u = 0; u < l2_unroll; ++u) {
      seen.x ^= v[u].x;
      seen.y ^= v[u].y;
      seen.z ^= v[u].z;
      seen.w ^= v[u].w;
    }
  }
  if (seen.x == 0x9e3779b9u && seen.y == 0x7f4a7c15u && seen.z == 0xf39cc060u) *sink = seen.w;
}

/// A generator modulo a power of two whose period is all of it (Hull and Dobell: odd increment,
/// factor 1 modulo 4): one cycle over all lines, its neighbours far apart.
__global__ void link_kernel(unsigned long long* words, unsigned long long lines) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i =
           static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < lines; i += step)
    words[i * line_words] =
        ((6364136223846793005ull * i + 1442695040888963407ull) & (lines - 1)) * line_words;
}

__global__ void chase_kernel(const unsigned long long* words, unsigned long long* state,
                             int steps) {
  unsigned long long at = *state;
  for (int n = 0; n < steps; ++n) at = __ldcg(words + at);
  *state = at;
}

__global__ void __launch_bounds__(256) reduction_kernel(int repeats, float* sink) {
  __shared__ float parts[2][8];  // two, so that one barrier a sum is enough
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float value = static_cast<float>(threadIdx.x);
#pragma unroll 1
  for (int n = 0; n < repeats; ++n) {
    float* mine = parts[n % 2];
#pragma unroll
    for (int away = 16; away > 0; away /= 2) value += __shfl_xor_sync(0xffffffffu, value, away);
    if (lane == 0) mine[warp] = value;
    __syncthreads();
    value = mine[lane % 8];
#pragma unroll
    for (int away = 4; away > 0; away /= 2) value += __shfl_xor_sync(0xffffffffu, value, away);
    value *= 1.0f / 256;
  }
  if (value == unlikely) *sink = value;
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

void expect_gpu(const device& where) {
  if (where.is_host()) throw std::invalid_argument("device is host; expected a GPU");
  check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
}

void expect_positive(const char* name, std::int64_t value) {
  if (value < 1)
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                                "; expected 1 or more");
}

/// As many blocks as are resident at once: one full wave.
template <class Kernel>
int full_grid(const device& where, Kernel kernel, int threads) {
  int resident = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return std::max(1, resident) * where.limits.sms;
}

/// A stream and two events.
struct stopwatch {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, stop = nullptr;
  stopwatch() {
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    check_cuda(cudaEventCreate(&start), "cudaEventCreate");
    check_cuda(cudaEventCreate(&stop), "cudaEventCreate");
  }
  ~stopwatch() {
    if (start != nullptr) cudaEventDestroy(start);
    if (stop != nullptr) cudaEventDestroy(stop);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

  template <class Work>
  double us(Work work) {
    check_cuda(cudaEventRecord(start, stream), "cudaEventRecord");
    work();
    check_cuda(cudaEventRecord(stop, stream), "cudaEventRecord");
    check_cuda(cudaGetLastError(), "launching empty kernels");
    check_cuda(cudaEventSynchronize(stop), "empty kernels");
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
    return ms * 1000.0;
  }
};

struct empty_graph {
  cudaGraphExec_t exec = nullptr;
  empty_graph(cudaStream_t stream, int nodes) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    for (int i = 0; i < nodes; ++i) empty_kernel<<<1, 32, 0, stream>>>();
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t code = cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(code, "cudaGraphInstantiate");
    check_cuda(cudaGraphUpload(exec, stream), "cudaGraphUpload");
    check_cuda(cudaStreamSynchronize(stream), "cudaGraphUpload");
  }
  ~empty_graph() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
  }
  empty_graph(const empty_graph&) = delete;
  empty_graph& operator=(const empty_graph&) = delete;
};

}  // namespace

pipe_load::pipe_load(const device& where, pipe which, int iterations)
    : which_(which), iterations_(iterations), sink_(where, 256) {
  expect_gpu(where);
  expect_positive("iterations", iterations);
  switch (which) {
    case pipe::fma:
      grid_ = full_grid(where, fma_kernel, pipe_threads);
      operations_ = 2.0 * chains * fma_unroll * pipe_threads;
      break;
    case pipe::special:
      grid_ = full_grid(where, special_kernel, pipe_threads);
      operations_ = 1.0 * chains * special_unroll * pipe_threads;
      break;
    case pipe::tensor:
      if (where.limits.cc < 80)
        throw std::invalid_argument("compute capability is " + std::to_string(where.limits.cc) +
                                    "; expected 80 or more, for bf16 on tensor cores");
      grid_ = full_grid(where, tensor_kernel, pipe_threads);
      operations_ = mma_operations * tiles * mma_unroll * (pipe_threads / 32);
      break;
  }
  operations_ *= 1.0 * grid_ * iterations;
}

arm pipe_load::as_arm() const {
  const int grid = grid_, iterations = iterations_;
  float* sink = reinterpret_cast<float*>(sink_.data());
  switch (which_) {
    case pipe::fma:
      return {"fma", [=](int, void* s) {
                fma_kernel<<<grid, pipe_threads, 0, stream_of(s)>>>(iterations, -0.999999f, 1.37f,
                                                                    sink);
              }};
    case pipe::special:
      return {"special", [=](int, void* s) {
                special_kernel<<<grid, pipe_threads, 0, stream_of(s)>>>(iterations, sink);
              }};
    default:
      return {"tensor", [=](int, void* s) {
                tensor_kernel<<<grid, pipe_threads, 0, stream_of(s)>>>(iterations, sink);
              }};
  }
}

l2_load::l2_load(const device& where, std::int64_t bytes) : bytes_(bytes) {
  expect_gpu(where);
  if (bytes < 512 || bytes % 512 != 0 || bytes / 16 > (std::int64_t{1} << 30))
    throw std::invalid_argument("bytes is " + std::to_string(bytes) +
                                "; expected a multiple of 512 up to 16 GB");
  data_ = memory(where, static_cast<std::size_t>(bytes));
  sink_ = memory(where, 256);
  fill_kernel<<<1024, 256>>>(reinterpret_cast<unsigned*>(data_.data()), bytes / 4);
  check_cuda(cudaGetLastError(), "filling a working set");
  check_cuda(cudaDeviceSynchronize(), "filling a working set");
  grid_ = full_grid(where, l2_kernel, l2_threads);
  const double front = 16.0 * grid_ * l2_threads * l2_unroll;  // bytes a loop
  loops_ = static_cast<int>(std::max(l2_target, static_cast<double>(bytes)) / front) + 1;
}

double l2_load::bytes_per_call() const { return 16.0 * grid_ * l2_threads * l2_unroll * loops_; }

arm l2_load::as_arm() const {
  const int grid = grid_, loops = loops_;
  const auto* data = reinterpret_cast<const uint4*>(data_.data());
  const auto count = static_cast<unsigned>(bytes_ / 16);
  auto* sink = reinterpret_cast<unsigned*>(sink_.data());
  return {"l2", [=](int, void* s) {
            l2_kernel<<<grid, l2_threads, 0, stream_of(s)>>>(data, count, loops, sink);
          }};
}

pointer_chase::pointer_chase(const device& where, int steps) : steps_(steps) {
  expect_gpu(where);
  expect_positive("steps", steps);
  constexpr std::size_t line = line_words * 8;
  std::size_t lines = 1 << 16;
  while (static_cast<std::int64_t>(lines * line) <= 4 * where.limits.l2_bytes) lines *= 2;
  lines_ = memory(where, lines * line);
  state_ = memory(where, 256);
  check_cuda(cudaMemset(state_.data(), 0, state_.size()), "cudaMemset");
  link_kernel<<<1024, 256>>>(reinterpret_cast<unsigned long long*>(lines_.data()), lines);
  check_cuda(cudaGetLastError(), "linking lines");
  check_cuda(cudaDeviceSynchronize(), "linking lines");
  // What was written last is in L2 still: read something else until it is gone.
  const l2_load other(where,
                      std::max<std::int64_t>(3 * where.limits.l2_bytes, 1 << 20) / 512 * 512);
  other.as_arm().run(0, nullptr);
  check_cuda(cudaGetLastError(), "evicting lines");
  check_cuda(cudaDeviceSynchronize(), "evicting lines");
}

arm pointer_chase::as_arm() const {
  const int steps = steps_;
  const auto* words = reinterpret_cast<const unsigned long long*>(lines_.data());
  auto* state = reinterpret_cast<unsigned long long*>(state_.data());
  return {"pointer chase",
          [=](int, void* s) { chase_kernel<<<1, 1, 0, stream_of(s)>>>(words, state, steps); }};
}

block_reduction::block_reduction(const device& where, int repeats)
    : repeats_(repeats), sink_(where, 256) {
  expect_gpu(where);
  expect_positive("repeats", repeats);
}

arm block_reduction::as_arm() const {
  const int repeats = repeats_;
  auto* sink = reinterpret_cast<float*>(sink_.data());
  return {"block reduction",
          [=](int, void* s) { reduction_kernel<<<1, 256, 0, stream_of(s)>>>(repeats, sink); }};
}

arm empty_arm() {
  return {"empty", [](int, void* s) { empty_kernel<<<1, 32, 0, stream_of(s)>>>(); }};
}

std::vector<double> stream_launch_us(const device& where, int launches, int samples) {
  expect_gpu(where);
  expect_positive("launches", launches);
  expect_positive("samples", samples);
  stopwatch watch;
  std::vector<double> us;
  for (int i = -1; i < samples; ++i) {  // the first loads the kernel, and does not count
    const double whole = watch.us([&] {
      for (int n = 0; n < launches; ++n) empty_kernel<<<1, 32, 0, watch.stream>>>();
    });
    if (i >= 0) us.push_back(whole / launches);
  }
  return us;
}

std::vector<double> graph_node_us(const device& where, int nodes, int samples) {
  expect_gpu(where);
  expect_positive("nodes", nodes);
  expect_positive("samples", samples);
  stopwatch watch;
  empty_kernel<<<1, 32, 0, watch.stream>>>();  // loaded before a capture needs it
  check_cuda(cudaGetLastError(), "an empty kernel");
  check_cuda(cudaStreamSynchronize(watch.stream), "an empty kernel");
  const empty_graph graph(watch.stream, nodes);
  std::vector<double> us;
  for (int i = -1; i < samples; ++i) {
    // Busy until the host has handed the graph over, whose launch would count otherwise.
    spin_kernel<<<1, 1, 0, watch.stream>>>(1'000'000);
    const double whole =
        watch.us([&] { check_cuda(cudaGraphLaunch(graph.exec, watch.stream), "cudaGraphLaunch"); });
    if (i >= 0) us.push_back(whole / nodes);
  }
  return us;
}

}  // namespace capstone::tools
