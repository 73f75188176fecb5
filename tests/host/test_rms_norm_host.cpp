// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The kernel's own code, lane by lane, under AddressSanitizer and UBSan.

#include <capstone/fused.cuh>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

using namespace capstone;
using detail::from_f32;
using detail::to_f32;

namespace {

/// Exactly `count` elements on the heap, `offset` elements off a 16-byte border: ASan sees the first
/// byte before and after.
template <class T>
struct block {
  std::unique_ptr<char[]> bytes;
  T* data;
  block(std::size_t count, std::size_t offset) : bytes(new char[(count + offset) * sizeof(T)]) {
    // operator new[] aligns to 16; elements before `offset` are poisoned by not existing for us.
    data = reinterpret_cast<T*>(bytes.get()) + offset;
  }
};

struct trial {
  long long rows, cols, pads[4] = {0, 0, 0, 0};
  std::size_t offsets[5] = {0, 0, 0, 0, 0};
  bool residual = false, weight = true, in_place = false;
  float offset = 0, eps = 1e-6f;
};

/// Runs one call on the host team and returns the worst error over bound of y and residual_out.
template <class X, class W, class Out>
double worst(const trial& t, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto size = [&](int pad) {
    return std::size_t(t.rows == 0 ? 0 : (t.rows - 1) * (t.cols + t.pads[pad]) + t.cols);
  };
  block<X> x(size(0), t.offsets[0]), residual(size(1), t.offsets[1]);
  block<W> weight(std::size_t(t.cols), t.offsets[2]);
  block<Out> y(size(2), t.offsets[3]);
  block<X> sum(size(3), t.offsets[4]);
  for (std::size_t i = 0; i < size(0); ++i) x.data[i] = from_f32<X>(normal(random));
  for (std::size_t i = 0; i < size(1); ++i) residual.data[i] = from_f32<X>(normal(random));
  for (long long i = 0; i < t.cols; ++i) weight.data[i] = from_f32<W>(normal(random));
  const std::vector<X> x0(x.data, x.data + size(0)), r0(residual.data, residual.data + size(1));

  rms_norm_problem<X, W, Out> p;
  p.x = x.data, p.y = y.data, p.rows = t.rows, p.cols = t.cols, p.eps = t.eps, p.weight_offset = t.offset;
  p.x_stride = t.cols + t.pads[0], p.residual_stride = t.cols + t.pads[1];
  p.y_stride = t.cols + t.pads[2], p.residual_out_stride = t.cols + t.pads[3];
  if (t.weight) p.weight = weight.data;
  if (t.residual) p.residual = residual.data, p.residual_out = sum.data;
  if (t.in_place && t.residual) p.residual_out = residual.data, p.residual_out_stride = p.residual_stride;
  if constexpr (std::is_same_v<X, Out>)
    if (t.in_place) p.y = x.data, p.y_stride = p.x_stride;

  const status s = rms_norm_on_host<X, W, Out>(p);
  REQUIRE_MESSAGE(s.ok(), s.sentence().c_str());

  const double half_ulp = std::is_same_v<Out, f32> ? 0x1p-24 : std::is_same_v<Out, f16> ? 0x1p-11 : 0x1p-8;
  const double half_ulp_x = std::is_same_v<X, f32> ? 0x1p-24 : std::is_same_v<X, f16> ? 0x1p-11 : 0x1p-8;
  const double chain = double(detail::row_steps(detail::default_reduction(t.cols, sizeof(X)), t.cols)) * 8 + 24;
  double ratio = 0;
  for (long long row = 0; row < t.rows; ++row) {
    std::vector<double> h(std::size_t(t.cols), 0.0);
    double squares = 0;
    for (long long c = 0; c < t.cols; ++c) {
      h[c] = double(to_f32(x0[row * p.x_stride + c]));
      if (t.residual) h[c] += double(to_f32(r0[row * p.residual_stride + c]));
      squares += h[c] * h[c];
    }
    const double rstd = 1 / std::sqrt(squares / double(t.cols) + double(t.eps));
    for (long long c = 0; c < t.cols; ++c) {
      const double w = t.weight ? double(t.offset) + double(to_f32(weight.data[c])) : 1;
      const double want = h[c] * rstd * w;
      const double bound = std::fabs(want) * (chain * 0x1p-24 + half_ulp) + 0x1p-24;
      ratio = std::fmax(ratio, std::fabs(double(to_f32(p.y[row * p.y_stride + c])) - want) / bound);
      if (!t.residual) continue;
      const double got = double(to_f32(p.residual_out[row * p.residual_out_stride + c]));
      ratio = std::fmax(ratio, std::fabs(got - h[c]) / (std::fabs(h[c]) * (half_ulp_x + 0x1p-24) + 0x1p-24));
    }
  }
  return ratio;
}

double worst_of(int types, const trial& t, unsigned seed) {
  switch (types % 5) {
    case 0: return worst<bf16, bf16, bf16>(t, seed);
    case 1: return worst<f16, f16, f16>(t, seed);
    case 2: return worst<f32, f32, f32>(t, seed);
    case 3: return worst<bf16, f32, bf16>(t, seed);
    default: return worst<bf16, bf16, f32>(t, seed);
  }
}

}  // namespace

TEST_CASE("rms_norm on the host team: clean and right at every border of cols") {
  for (const long long cols : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257, 769, 1023, 1025, 4095, 4096, 4097, 12289})
    for (int types = 0; types < 5; ++types) {
      CAPTURE(cols);
      CAPTURE(types);
      CHECK(worst_of(types, {.rows = 3, .cols = cols, .residual = types % 2 == 0}, unsigned(cols)) <= 1);
    }
}

TEST_CASE("rms_norm on the host team: clean and right at 500 random shapes, alignments and strides") {
  std::mt19937 random(20);
  const auto below = [&](unsigned n) { return static_cast<long long>(random() % n); };
  for (unsigned i = 0; i < 500; ++i) {
    trial t{.rows = below(6), .cols = 1 + below(i % 5 == 0 ? 5000 : 300)};
    if (below(2)) t.cols = (t.cols + 7) / 8 * 8;
    for (auto& pad : t.pads) pad = below(3) == 0 ? below(20) : 8 * below(2);
    for (auto& offset : t.offsets) offset = std::size_t(below(3) == 0 ? below(9) : 0);
    t.residual = below(2), t.weight = below(4) != 0, t.in_place = below(3) == 0;
    t.offset = below(2) ? 1.0f : 0.0f, t.eps = below(2) ? 1e-6f : 1e-2f;
    CAPTURE(i);
    CAPTURE(t.rows);
    CAPTURE(t.cols);
    CHECK(worst_of(int(i), t, i) <= 1);
  }
}

TEST_CASE("rms_norm on the host team: a row is bitwise the same alone and in any batch, at any alignment") {
  constexpr long long cols = 520;
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  std::vector<bf16> batch(9 * cols), weight(cols), together(9 * cols), alone(cols + 9), moved(cols + 9);
  for (auto& v : batch) v = from_f32<bf16>(normal(random));
  for (auto& v : weight) v = from_f32<bf16>(normal(random));
  REQUIRE(rms_norm_on_host<bf16>({.x = batch.data(), .weight = weight.data(), .y = together.data(), .rows = 9, .cols = cols}).ok());
  for (long long row = 0; row < 9; ++row)
    for (int offset = 0; offset < 9; ++offset) {
      std::memcpy(moved.data() + offset, batch.data() + row * cols, cols * sizeof(bf16));
      REQUIRE(rms_norm_on_host<bf16>({.x = moved.data() + offset, .weight = weight.data(), .y = alone.data() + offset, .rows = 1, .cols = cols}).ok());
      CHECK(std::memcmp(alone.data() + offset, together.data() + row * cols, cols * sizeof(bf16)) == 0);
    }
}
