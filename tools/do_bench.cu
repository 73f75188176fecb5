// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// What tools/do_bench times from Python: the library's calls, and kernels of known behaviour. Each
// function enqueues on the stream and returns null, or the sentence of a failure (the thread's own
// buffer, until its next call).

#include <capstone/rms_norm.cuh>

namespace {

using capstone::bf16;

thread_local capstone::status::text sentence;

const char* result(const capstone::status& s) {
  if (s.ok()) return nullptr;
  sentence = s.sentence();
  return sentence.chars;
}

/// Of a launch just made.
const char* launched() { return result(cudaGetLastError()); }

__device__ unsigned long long now_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void empty_kernel() {}

__global__ void spin_kernel(unsigned long long ns) {
  const unsigned long long begin = now_ns();
  while (now_ns() - begin < ns) {
  }
}

constexpr int threads = 256, vectors = 4;  // a thread moves 4 x 16 bytes

__global__ void copy_kernel(const uint4* from, uint4* to, long long count) {
  const long long first = (long long)blockIdx.x * threads * vectors + threadIdx.x;
  uint4 v[vectors];
  for (int i = 0; i < vectors; ++i)
    if (first + i * threads < count) v[i] = from[first + i * threads];
  for (int i = 0; i < vectors; ++i)
    if (first + i * threads < count) to[first + i * threads] = v[i];
}

/// Leaves L2 full of clean lines, which cost no write-back to whoever evicts them.
__global__ void read_kernel(const uint4* from, long long count, unsigned* sink) {
  const long long first = (long long)blockIdx.x * threads * vectors + threadIdx.x;
  unsigned seen = 0;
  for (int i = 0; i < vectors; ++i)
    if (first + i * threads < count) {
      const uint4 v = from[first + i * threads];
      seen |= v.x ^ v.y ^ v.z ^ v.w;
    }
  if (seen == 0x9e3779b9u) *sink = seen;  // never for a zeroed buffer; keeps the loads alive
}

unsigned blocks_for(long long count) {
  return unsigned((count + threads * vectors - 1) / (threads * vectors));
}

}  // namespace

extern "C" {

/// rms_norm<bf16>: x, y and the two others are (rows, cols), weight is (cols). residual and
/// residual_out are null where there is no residual.
const char* do_bench_rms_norm(const void* x, const void* residual, const void* weight, void* y,
                              void* residual_out, long long rows, long long cols, float eps,
                              cudaStream_t stream) {
  return result(capstone::rms_norm<bf16>({.x = static_cast<const bf16*>(x),
                                          .residual = static_cast<const bf16*>(residual),
                                          .weight = static_cast<const bf16*>(weight),
                                          .y = static_cast<bf16*>(y),
                                          .residual_out = static_cast<bf16*>(residual_out),
                                          .rows = rows,
                                          .cols = cols,
                                          .eps = eps},
                                         stream));
}

const char* do_bench_empty(cudaStream_t stream) {
  empty_kernel<<<1, 32, 0, stream>>>();
  return launched();
}

/// Lasts `ns` nanoseconds of the GPU's own clock, and its start and end.
const char* do_bench_spin(unsigned long long ns, cudaStream_t stream) {
  spin_kernel<<<1, 1, 0, stream>>>(ns);
  return launched();
}

/// `bytes`: a multiple of 16, of each of the two buffers.
const char* do_bench_copy(const void* from, void* to, long long bytes, cudaStream_t stream) {
  copy_kernel<<<blocks_for(bytes / 16), threads, 0, stream>>>(static_cast<const uint4*>(from),
                                                              static_cast<uint4*>(to), bytes / 16);
  return launched();
}

/// Reads a zeroed buffer whose first 16 bytes are the sink.
const char* do_bench_read(void* from, long long bytes, cudaStream_t stream) {
  const long long count = bytes / 16 - 1;
  read_kernel<<<blocks_for(count), threads, 0, stream>>>(static_cast<const uint4*>(from) + 1, count,
                                                         static_cast<unsigned*>(from));
  return launched();
}

}  // extern "C"
