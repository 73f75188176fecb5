// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Faults planted in a stand-in for rms_norm, each caught by `claims verify` with rms_norm's own
// spec: its edge suite, its reference, its tolerance. A bound that no planted fault exceeds would be
// too wide; one that the right stand-in exceeds, too narrow.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "capstone/detail/numeric.cuh"
#include "claims/verify.hpp"

using namespace capstone::claims;
namespace detail = capstone::detail;

namespace {

enum class fault {
  none,
  last_column_dropped,
  tail_into_next_row,
  eps_omitted,
  f16_accumulation,         ///< of the 16 squares of a lane; the lanes are added as they should be
  variance_of_x,            ///< the residual is left out of it
  variance_of_other_sum,    ///< of the rounded sum where the unrounded one is declared, and vice versa
  y_truncated,              ///< rounds towards zero
  sum_truncated,
  nothing_written,
  normalized_not_rounded,   ///< where the variant declares that it is
  normalized_rounded,       ///< where it declares that it is not
};

float read(dtype type, const void* from, std::int64_t i) {
  switch (type) {
    case dtype::f32: return static_cast<const float*>(from)[i];
    case dtype::f16: return detail::to_f32(static_cast<const capstone::f16*>(from)[i]);
    case dtype::bf16: return detail::to_f32(static_cast<const capstone::bf16*>(from)[i]);
  }
  return 0;
}

void write(dtype type, void* to, std::int64_t i, float value, bool truncate) {
  switch (type) {
    case dtype::f32: static_cast<float*>(to)[i] = value; break;
    case dtype::f16:
      static_cast<capstone::f16*>(to)[i] =
          truncate ? __float2half_rz(value) : detail::from_f32<capstone::f16>(value);
      break;
    case dtype::bf16:
      static_cast<capstone::bf16*>(to)[i] =
          truncate ? __float2bfloat16_rz(value) : detail::from_f32<capstone::bf16>(value);
      break;
  }
}

float rounded(dtype type, float value) {
  return type == dtype::f16    ? detail::rounded_to<capstone::f16>(value)
         : type == dtype::bf16 ? detail::rounded_to<capstone::bf16>(value)
                               : value;
}

bool has_suffix(const std::string& text, const char* suffix) { return text.ends_with(suffix); }

/// rms_norm as its documentation has it, element by element; `wrong` is planted.
void run(fault wrong, const kernel_spec& kernel, const problem& what, const pointers& at) {
  if (wrong == fault::nothing_written) return;
  const auto descs = kernel.buffers(what);
  const bool residual = descs.size() == 5;
  const std::size_t w = residual ? 2 : 1, y = w + 1;
  const bool both = has_suffix(kernel.variant, ".round_both");
  const bool round_sum = residual && (both || has_suffix(kernel.variant, ".round_sum"));
  bool round_normalized = both || has_suffix(kernel.variant, ".round_normalized");
  if (wrong == fault::normalized_not_rounded) round_normalized = false;
  if (wrong == fault::normalized_rounded) round_normalized = true;
  const dtype x_type = descs[0].type;
  const std::int64_t rows = what.shape.at(0), cols = what.shape.at(1), stride = cols + what.pad;
  const float eps = wrong == fault::eps_omitted ? 0.0f : static_cast<float>(what.option("eps", 1e-6));
  const bool has_weight = what.option("weight", 1) != 0;
  const float offset = static_cast<float>(what.option("weight_offset", 0));
  std::vector<float> h(static_cast<std::size_t>(cols));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = row * stride;
    double squares = 0;
    float lane = 0;
    for (std::int64_t c = 0; c < cols; ++c) {
      const float x = read(x_type, at[0], begin + c);
      const float sum = residual ? x + read(x_type, at[1], begin + c) : x;
      const float declared = round_sum ? rounded(x_type, sum) : sum;
      h[static_cast<std::size_t>(c)] = declared;
      const float v = wrong == fault::variance_of_x           ? x
                      : wrong != fault::variance_of_other_sum ? declared
                      : round_sum                             ? sum
                                                              : rounded(x_type, sum);
      if (wrong != fault::f16_accumulation) {
        squares += double{v} * double{v};
        continue;
      }
      lane = detail::rounded_to<capstone::f16>(lane + v * v);
      if (c % 16 == 15 || c == cols - 1) squares += double{std::exchange(lane, 0.0f)};
    }
    const auto rstd =
        static_cast<float>(1 / std::sqrt(squares / static_cast<double>(cols) + double{eps}));
    const std::int64_t written = wrong == fault::last_column_dropped ? cols - 1 : cols;
    for (std::int64_t c = 0; c < written; ++c) {
      const float value = h[static_cast<std::size_t>(c)];
      const float factor = has_weight ? offset + read(descs[w].type, at[w], c) : 1;
      float n = value * rstd;
      if (round_normalized) n = rounded(x_type, n);
      if (residual) write(x_type, at[y + 1], begin + c, value, wrong == fault::sum_truncated);
      write(descs[y].type, at[y], begin + c, n * factor, wrong == fault::y_truncated);
    }
    if (wrong == fault::tail_into_next_row)  // whole vectors of 8
      for (std::int64_t c = cols; c < (cols + 7) / 8 * 8; ++c)
        write(descs[y].type, at[y], begin + c, 0, false);
  }
}

struct found {
  int failed = 0;
  verified first;  ///< of those that failed
};

/// The spec's kernel with the stand-in as its shipped call.
kernel_spec stand_in(fault wrong, const char* name, const char* type) {
  const kernel_spec* const shipped = find_kernel(name, type).second;
  kernel_spec kernel = *shipped;
  kernel.call_host = [=](const problem& what, const pointers& at) -> std::string {
    run(wrong, *shipped, what, at);
    return "";
  };
  return kernel;
}

/// `claims verify` over the whole edge suite with the stand-in as the shipped call.
found verify_edge(fault wrong, const char* name, const char* type) {
  const op* const of = find_kernel(name, type).first;
  const kernel_spec kernel = stand_in(wrong, name, type);
  const device host = open_device("host");
  found all;
  for (const problem& what : of->suite("edge")) {
    const verified v = verify_problem(host, *of, kernel, {"edge", what}, 1);
    if (v.passed()) continue;
    if (all.failed++ == 0) all.first = v;
  }
  return all;
}

const check_result* output(const verified& v, const std::string& name) {
  for (const check_result& r : v.outputs)
    if (r.output == name) return &r;
  return nullptr;
}

bool says(const verified& v, const char* part) { return v.fault.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("rms_norm's check passes a right stand-in, whatever its order of accumulation") {
  for (const auto& [name, type] : {std::pair{"rms_norm", "bf16"}, {"rms_norm+residual", "bf16"},
                                   {"rms_norm+residual", "f16"}, {"rms_norm+residual", "f32"},
                                   {"rms_norm+residual", "bf16-bf16-f32"},
                                   {"rms_norm.round_normalized", "bf16"},
                                   {"rms_norm+residual.round_sum", "bf16"},
                                   {"rms_norm+residual.round_both", "bf16"},
                                   {"rms_norm+residual.round_both", "f16"}}) {
    CAPTURE(name);
    CAPTURE(type);
    const found f = verify_edge(fault::none, name, type);
    CAPTURE(f.first.what.shape);
    CAPTURE(f.first.what.layout);
    CAPTURE(f.first.fault);
    CHECK(f.failed == 0);
  }
}

TEST_CASE("rms_norm's check catches a dropped last column, a tail in the next row, nothing written") {
  CHECK(says(verify_edge(fault::last_column_dropped, "rms_norm+residual", "bf16").first, "not written"));
  CHECK(says(verify_edge(fault::tail_into_next_row, "rms_norm+residual", "bf16").first, "overwritten"));
  CHECK(says(verify_edge(fault::nothing_written, "rms_norm+residual", "bf16").first, "not written"));
}

TEST_CASE("rms_norm's check catches eps omitted, in every dtype") {
  for (const char* type : {"bf16", "f16", "f32"}) {
    CAPTURE(type);
    const found f = verify_edge(fault::eps_omitted, "rms_norm+residual", type);
    REQUIRE(f.failed > 0);
    CHECK(output(f.first, "y")->worst_ratio > 1);
    CHECK(output(f.first, "residual_out")->worst_ratio <= 1);
  }
}

TEST_CASE("rms_norm's check catches 16 squares accumulated in f16") {
  for (const char* type : {"bf16", "f16", "f32", "bf16-bf16-f32"}) {
    CAPTURE(type);
    const found f = verify_edge(fault::f16_accumulation, "rms_norm+residual", type);
    CHECK(f.failed > 20);  // not only where the data are large
  }
}

TEST_CASE("rms_norm's check catches the variance of the wrong sum") {
  for (const auto& [name, type] : {std::pair{"rms_norm+residual", "bf16"}, {"rms_norm+residual", "f16"},
                                   {"rms_norm+residual", "bf16-bf16-f32"},
                                   {"rms_norm+residual.round_sum", "bf16"},
                                   {"rms_norm+residual.round_both", "bf16"}}) {
    CAPTURE(name);
    CAPTURE(type);
    CHECK(verify_edge(fault::variance_of_x, name, type).failed > 20);
    CHECK(verify_edge(fault::variance_of_other_sum, name, type).failed > 0);
  }
}

TEST_CASE("rms_norm's check catches truncation of either output, by its size and by its bias") {
  const device host = open_device("host");
  problem what;
  what.shape = {67, 1000};
  for (const char* type : {"bf16", "f16"})
    for (const auto& [wrong, name] :
         {std::pair{fault::y_truncated, "y"}, {fault::sum_truncated, "residual_out"}}) {
      CAPTURE(type);
      CAPTURE(name);
      CHECK(verify_edge(wrong, "rms_norm+residual", type).failed > 20);
      const verified v = verify_problem(host, *find_kernel("rms_norm+residual", type).first,
                                        stand_in(wrong, "rms_norm+residual", type), {"shape", what}, 1);
      const check_result* r = output(v, name);
      REQUIRE(r != nullptr);
      CHECK(r->worst_ratio > 1.9);  // up to an ulp off, where half of one is granted
      CHECK(r->bias < -r->bias_limit);
    }
}

TEST_CASE("rms_norm's check tells the rounding points apart") {
  CHECK(verify_edge(fault::normalized_rounded, "rms_norm", "bf16").failed > 0);
  CHECK(verify_edge(fault::normalized_not_rounded, "rms_norm.round_normalized", "bf16").failed > 0);
  CHECK(verify_edge(fault::normalized_not_rounded, "rms_norm+residual.round_both", "bf16").failed > 0);
}
