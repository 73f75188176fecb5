// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// A tiny op for the tests of `claims`, y = 0.7 x in bf16 on the host, with a fault planted in its
/// shipped call.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/spec.hpp"

namespace capstone::tests::fake {

using namespace tools;

enum class fault {
  none,
  last_column_dropped,
  tail_into_next_row,  ///< stores whole vectors, also where the row's last one is a part
  nothing_written,
  truncated,  ///< rounds towards zero
  refuses,    ///< odd numbers of rows, with a sentence
};

inline constexpr float factor = 0.7f;
inline constexpr std::int64_t vector_elements = 8;

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

inline std::uint16_t to_bf16(float value, bool truncate) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t to_nearest_even = 0x7fff + (bits >> 16 & 1);
  return static_cast<std::uint16_t>((bits + (truncate ? 0 : to_nearest_even)) >> 16);
}

/// One call on host memory. Returns the sentence of a failure, else "".
inline std::string run_fake(fault wrong, const problem& what, const pointers& at) {
  const std::int64_t rows = what.shape.at(0), cols = what.shape.at(1), stride = cols + what.pad;
  if (wrong == fault::refuses && rows % 2 == 1)
    return "rows is " + std::to_string(rows) + "; expected a number that it likes";
  if (wrong == fault::nothing_written) return "";
  const auto* const x = static_cast<const std::uint16_t*>(at.at(0));
  auto* const y = static_cast<std::uint16_t*>(at.at(1));
  const std::int64_t written = wrong == fault::last_column_dropped ? cols - 1 : cols;
  const std::int64_t vectors = (cols + vector_elements - 1) / vector_elements;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = row * stride; i < row * stride + written; ++i)
      y[i] = to_bf16(from_bf16(x[i]) * factor, wrong == fault::truncated);
    if (wrong == fault::tail_into_next_row)
      std::fill(y + row * stride + cols, y + row * stride + vectors * vector_elements, 0);
  }
  return "";
}

/// Half the spacing of bf16 around `value`.
inline double half_ulp_bf16(double value) {
  return std::ldexp(1.0, std::max(std::ilogb(value), -126) - 8);
}

/// Grants a whole ulp, as an op that rounds twice has to: truncation keeps within it, and only the
/// bias tells. Rounding to nearest has a bias near 0, truncation one near -1.
inline check_result check_fake(const problem& what, const pointers& inputs,
                               const pointers& actual) {
  const std::int64_t rows = what.shape.at(0), cols = what.shape.at(1), stride = cols + what.pad;
  const auto* const x = static_cast<const std::uint16_t*>(inputs.at(0));
  const auto* const y = static_cast<const std::uint16_t*>(actual.at(1));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  check_result r;
  r.output = "y";
  double bias_sum = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      const double should_be = double{from_bf16(x[row * stride + col])} * double{factor};
      const double is = from_bf16(y[row * stride + col]), half = half_ulp_bf16(should_be);
      const double error = std::fabs(is - should_be), bound = 2 * half;
      const double ratio = std::isnan(is) ? infinity : error / bound;
      ++r.count;
      if (ratio > 1) ++r.failures;
      bias_sum += (std::fabs(is) - std::fabs(should_be)) / half;
      if (ratio <= r.worst_ratio) continue;
      r.worst_ratio = ratio, r.row = row, r.col = col;
      r.actual = is, r.expected = should_be, r.error = error, r.bound = bound;
    }
  }
  if (r.count > 0) r.bias = bias_sum / static_cast<double>(r.count);
  r.bias_limit = r.count < 1000 ? infinity : 0.25;  // the mean of a few says nothing
  return r;
}

inline kernel_spec fake_kernel(std::string variant, fault wrong) {
  kernel_spec k;
  k.op = "fake";
  k.variant = std::move(variant);
  k.dtype = "bf16";
  k.rounding = "once, to nearest even";
  k.tuned = true;
  k.buffers = [](const problem& p) {
    const std::int64_t rows = p.shape.at(0), cols = p.shape.at(1), stride = cols + p.pad;
    const int alias = p.in_place ? 0 : -1;
    return std::vector<buffer_desc>{
        {"x", role::in, dtype::bf16, rows, cols, stride, p.offset, -1, p.data},
        {"y", role::out, dtype::bf16, rows, cols, stride, p.offset, alias, p.data}};
  };
  k.check = [](const problem& p, const pointers& inputs, const pointers& actual, const config&,
               bool) { return std::vector{check_fake(p, inputs, actual)}; };
  k.traffic = [](const problem& p) {
    const std::int64_t bytes = 2 * p.shape.at(0) * p.shape.at(1);
    return traffic_model{bytes, bytes, 1, 1};
  };
  k.call_host = [wrong](const problem& p, const pointers& at) { return run_fake(wrong, p, at); };
  k.choice = [](const problem&, const pointers&, const device_limits&) {
    return choice_info{"default", {32}, false};
  };
  baseline textbook;
  textbook.name = "textbook";
  textbook.version = "1";
  textbook.on_host = true;
  textbook.run = [](const problem& p, const pointers& at, void*, void*) {
    run_fake(fault::none, p, at);
  };
  k.baselines = {textbook};
  return k;
}

inline op fake_op(std::vector<kernel_spec> kernels) {
  op o;
  o.name = "fake";
  o.header = "capstone/fake.cuh";
  o.config_type = "capstone::fake_config";
  o.dims = {"rows", "cols"};
  o.axes = {{"lanes", part::reduction, {32, 64}, {}, {}, {}, {}}};
  problem odd{.shape = {3, 17}, .offset = 1, .pad = 2};
  problem in_place{.shape = {4, 40}, .in_place = true};
  o.suites = {{"llm", {{.shape = {64, 96}}}}, {"edge", {odd, in_place, {.shape = {0, 96}}}}};
  o.kernels = std::move(kernels);
  return o;
}

/// An empty folder that goes away with what was put in it.
class scratch_tree {
 public:
  explicit scratch_tree(const std::string& name)
      : path_(
            (std::filesystem::temp_directory_path() / ("capstone-" + name + "-XXXXXX")).string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw std::runtime_error("the folder " + path_ + " cannot be made");
  }
  ~scratch_tree() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  scratch_tree(const scratch_tree&) = delete;
  scratch_tree& operator=(const scratch_tree&) = delete;

  const std::string& str() const { return path_; }

 private:
  std::string path_;
};

}  // namespace capstone::tests::fake
