// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Element types and float32 arithmetic with the same bits on host and device.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#if __cplusplus < 202002L
#error "capstone needs C++20: pass -std=c++20"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "capstone needs sm_80 or newer: pass -arch=sm_80, or set CMAKE_CUDA_ARCHITECTURES"
#endif

// Kernel bodies run on the device team and on the host team, so every helper is both. Forced
// inlining keeps a team free of cost: one call that is not inlined puts fragments in local memory.
#if defined(__CUDACC__)
#define CAPSTONE_FN __host__ __device__ __forceinline__
#else
#define CAPSTONE_FN inline __attribute__((always_inline))
#endif

namespace capstone {

using f16 = __half;
using bf16 = __nv_bfloat16;
using f32 = float;

namespace detail {

using int64 = long long;  // the widest integer that NVRTC, nvcc and g++ agree on without <cstdint>
using uint64 = unsigned long long;

CAPSTONE_FN float to_f32(float v) { return v; }
CAPSTONE_FN float to_f32(f16 v) { return __half2float(v); }
CAPSTONE_FN float to_f32(bf16 v) { return __bfloat162float(v); }

/// Rounds to nearest, ties to even.
template <class T>
CAPSTONE_FN T from_f32(float v);
template <>
CAPSTONE_FN float from_f32<float>(float v) { return v; }
template <>
CAPSTONE_FN f16 from_f32<f16>(float v) { return __float2half_rn(v); }
template <>
CAPSTONE_FN bf16 from_f32<bf16>(float v) { return __float2bfloat16_rn(v); }

/// The value after one rounding to T and back.
template <class T>
CAPSTONE_FN float rounded_to(float v) { return to_f32(from_f32<T>(v)); }

// Sums must not depend on what a compiler contracts, so every add and multiply-add that enters one
// names its rounding. On the host the translation unit is built with -ffp-contract=off.
CAPSTONE_FN float add_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
CAPSTONE_FN float mul_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
CAPSTONE_FN float fma_rn(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// 1 / sqrt(v) within 2 ulp (CUDA Programming Guide, table of maximum ulp errors).
CAPSTONE_FN float rsqrt(float v) {
#if defined(__CUDA_ARCH__)
  return rsqrtf(v);
#else
  return 1.0f / __builtin_sqrtf(v);
#endif
}

template <class T>
CAPSTONE_FN constexpr T ceil_div(T a, T b) { return (a + b - 1) / b; }

/// The smallest power of two that is at least v; 1 for v <= 1.
CAPSTONE_FN constexpr int64 bit_ceil(int64 v) {
  int64 p = 1;
  while (p < v) p *= 2;
  return p;
}

}  // namespace detail
}  // namespace capstone
