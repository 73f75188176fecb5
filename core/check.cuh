// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Comparison of a kernel's outputs with a float64 reference, row by row, on GPU or host.
///
/// A spec writes its reference as a function object called once per row: it computes what every
/// output element should be and how far off it may be, and tells the row's tallies.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <string>
#include <vector>

#include "capstone/detail/numeric.cuh"
#include "core/device.hpp"
#include "core/spec.hpp"

namespace capstone::tools {

/// Unit roundoff of float32 with round to nearest.
inline constexpr double f32_unit = 0x1p-24;

/// g(d) of Higham (Accuracy and Stability of Numerical Algorithms, 2002, sec. 3.1): the relative
/// error of a sum of terms of one sign after d roundings.
__host__ __device__ inline double gamma_bound(double depth) {
  return depth * f32_unit / (1 - depth * f32_unit);
}

template <class T>
struct format_of;
template <>
struct format_of<float> { static constexpr int digits = 24, min_exponent = -126, max_exponent = 127; };
template <>
struct format_of<f16> { static constexpr int digits = 11, min_exponent = -14, max_exponent = 15; };
template <>
struct format_of<bf16> { static constexpr int digits = 8, min_exponent = -126, max_exponent = 127; };

/// Half the spacing of T around |value|: the most that one rounding to T moves it.
template <class T>
__host__ __device__ double half_ulp(double value) {
  using f = format_of<T>;
  if (!(fabs(value) > 0) || isinf(value)) return ldexp(1.0, f::min_exponent - f::digits);
  int exponent = 0;
  frexp(value, &exponent);  // value = m * 2^exponent with m in [0.5, 1)
  exponent -= 1;
  if (exponent < f::min_exponent) exponent = f::min_exponent;
  return ldexp(1.0, exponent - f::digits);
}

/// What one row (or many) showed of one output.
struct tally {
  std::int64_t count = 0, failures = 0, row = 0, col = 0;
  double worst_ratio = -1, actual = 0, expected = 0, error = 0, bound = 0;
  std::int64_t bias_count = 0;
  double bias_sum = 0, slack_sum = 0;

  /// `computed` bounds the error before the last rounding; half an ulp of T is added for that one.
  /// `lattice` is what the mean error may be, in half ulps, because the exact values lie on a grid.
  template <class T>
  __host__ __device__ void add(std::int64_t at_row, std::int64_t at_col, T value, double should_be,
                               double computed, double lattice = 0) {
    using f = format_of<T>;
    const double is = static_cast<double>(capstone::detail::to_f32(value)), half = half_ulp<T>(should_be);
    const double allowed = computed + half, overflow = ldexp(2.0 - ldexp(1.0, -f::digits), f::max_exponent);
    const double off = fabs(is - should_be);
    double ratio = off / allowed;
    if (isnan(should_be)) {
      ratio = isnan(is) ? 0 : INFINITY;
    } else if (fabs(should_be) - allowed >= overflow) {
      ratio = is == (should_be > 0 ? INFINITY : -INFINITY) ? 0 : INFINITY;
    } else if (isnan(is) || isinf(is)) {
      ratio = isinf(is) && fabs(should_be) + allowed >= overflow && (is > 0) == (should_be > 0) ? 0 : INFINITY;
    } else if (should_be != 0) {
      ++bias_count;
      bias_sum += (fabs(is) - fabs(should_be)) / half;
      slack_sum += computed / half + lattice;
    }
    ++count;
    if (!(ratio <= 1)) ++failures;
    if (ratio > worst_ratio) {
      worst_ratio = ratio, row = at_row, col = at_col;
      actual = is, expected = should_be, error = off, bound = allowed;
    }
  }

  void merge(const tally& o) {
    count += o.count, failures += o.failures;
    bias_count += o.bias_count, bias_sum += o.bias_sum, slack_sum += o.slack_sum;
    if (o.worst_ratio > worst_ratio) {
      worst_ratio = o.worst_ratio, row = o.row, col = o.col;
      actual = o.actual, expected = o.expected, error = o.error, bound = o.bound;
    }
  }

  /// Rounding errors to nearest spread evenly over +-1 half ulp, so the mean of n independent ones
  /// has a deviation of 0.58 / sqrt(n); six of those, and what the bound grants the computation, are
  /// allowed. Only 32 elements a row count as independent: without weights a row of bf16 has one
  /// factor and 128 significands, unevenly used (6 x 4096 showed a mean of 0.13 half ulps, where
  /// 6 * 0.58 / sqrt(n) is 0.022). Truncation shows as a mean of -1.
  /// With fewer than 1000 elements, or `correlated` inputs, the mean says nothing and is not limited.
  check_result result(std::string output, std::int64_t rows, bool correlated) const {
    check_result r{std::move(output), count, failures, worst_ratio < 0 ? 0 : worst_ratio, row, col,
                   actual, expected, error, bound};
    r.bias_limit = INFINITY;
    if (bias_count > 0) r.bias = bias_sum / double(bias_count);
    if (bias_count >= 1000 && !correlated)
      r.bias_limit = slack_sum / double(bias_count) +
                     6 * 0.58 / std::sqrt(double(bias_count < 32 * rows ? bias_count : 32 * rows));
    return r;
  }
};

template <int Outputs, class Reference>
__global__ void check_kernel(Reference reference, std::int64_t first, std::int64_t rows, tally* tallies) {
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  tally mine[Outputs];
  reference(first + i, mine);
  for (int o = 0; o < Outputs; ++o) tallies[i * Outputs + o] = mine[o];
}

/// Calls `reference(row, tallies)` for every row, on the GPU (a thread a row) or here.
template <int Outputs, class Reference>
std::vector<check_result> check_rows(const Reference& reference, std::int64_t rows,
                                     const std::vector<std::string>& outputs, bool correlated, bool on_host) {
  std::vector<tally> totals(Outputs);
  if (on_host) {
    for (std::int64_t row = 0; row < rows; ++row) {
      tally mine[Outputs];
      reference(row, mine);
      for (int o = 0; o < Outputs; ++o) totals[o].merge(mine[o]);
    }
  } else {
    constexpr std::int64_t chunk = 1 << 17;
    const std::int64_t most = rows < chunk ? rows : chunk;
    std::vector<tally> here(std::size_t(most) * Outputs);
    tally* there = nullptr;
    if (rows > 0) check_cuda(cudaMalloc(&there, here.size() * sizeof(tally)), "cudaMalloc");
    for (std::int64_t first = 0; first < rows; first += chunk) {
      const std::int64_t n = rows - first < chunk ? rows - first : chunk;
      check_kernel<Outputs><<<unsigned((n + 63) / 64), 64>>>(reference, first, n, there);
      check_cuda(cudaGetLastError(), "check_kernel");
      check_cuda(cudaMemcpy(here.data(), there, std::size_t(n) * Outputs * sizeof(tally),
                            cudaMemcpyDeviceToHost), "check_kernel");
      for (std::int64_t i = 0; i < n * Outputs; ++i) totals[std::size_t(i % Outputs)].merge(here[std::size_t(i)]);
    }
    if (there != nullptr) check_cuda(cudaFree(there), "cudaFree");
  }
  std::vector<check_result> results;
  for (int o = 0; o < Outputs; ++o) results.push_back(totals[o].result(outputs[o], rows, correlated));
  return results;
}

}  // namespace capstone::tools
