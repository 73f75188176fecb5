// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The compiled schedules on the host team, under AddressSanitizer and UBSan: looping grids, kept
// weights, several rows a block, clusters, narrow loads, in place. Every one has the bits of the
// run-time path with the same reduction, at every access width.

#include <capstone/fused.cuh>

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

using namespace capstone;

namespace {

constexpr detail::table_row<row_config> row(long long cols, row_reduction r, row_schedule s) {
  return {.device = {}, .variant = "+residual", .dtype = "bf16", .cols_min = 1, .cols_max = cols,
          .rows_min = 1, .rows_max = 0, .rows_tuned = 1, .config = {r, s}};
}

struct schedules {
  static constexpr int count = 8;
  static constexpr detail::table_row<row_config> rows[] = {
      row(520, {4, 8, 1}, {.tile_rows = 16, .hold = row_hold::registers, .weights = row_weights::once, .persistent = 1}),
      row(520, {32, 4, 1}, {.tile_rows = 3, .load_bytes = 8, .weights = row_weights::early, .persistent = 1}),
      row(520, {96, 16, 1}, {.tile_rows = 2, .hold = row_hold::packed, .weights = row_weights::as_used}),
      row(520, {64, 8, 1}, {.load_bytes = 4, .hold = row_hold::reread, .weights = row_weights::late}),
      row(520, {64, 8, 1}, {.load_bytes = 2, .weights = row_weights::once, .persistent = 2}),
      row(2600, {32, 8, 8}, {.hold = row_hold::reread, .weights = row_weights::as_used, .persistent = 1}),
      row(2600, {160, 4, 2}, {.load_bytes = 8, .hold = row_hold::registers, .cache = detail::cache_use::streaming}),
      row(2600, {1024, 2, 1}, {.load_bytes = 4, .weights = row_weights::once, .persistent = 1}),
  };
};

template <rounding R>
struct runner {
  using op = detail::rms_norm_op<bf16, bf16, bf16, true, R>;
  std::vector<bf16> x, r, w;
  long long rows, cols, offset, stride;

  runner(long long rows_, long long cols_, long long offset_, long long pad)
      : rows(rows_), cols(cols_), offset(offset_), stride(cols_ + pad) {
    std::mt19937 random{unsigned(cols)};
    std::normal_distribution<float> normal;
    x.resize(std::size_t(offset + (rows - 1) * stride + cols)), r = x;
    w.resize(std::size_t(offset + cols));
    for (auto* v : {&x, &r, &w})
      for (auto& e : *v) e = detail::from_f32<bf16>(normal(random));
  }

  /// Row `entry` of the table, or with -1 the run-time path with its reduction and `width` elements
  /// an access; one block an SM of a GPU with one SM, so that persistent grids loop. y, then the sum.
  std::vector<bf16> run(int entry, const row_reduction& reduction, int width, bool in_place) const {
    auto a = x, b = r, y = x, s = r;
    detail::rms_norm_params<bf16, bf16, bf16> p;
    int vector = 1;
    auto& to_y = in_place ? a : y;
    auto& to_s = in_place ? b : s;
    const rms_norm_problem<bf16> q{.x = a.data() + offset, .residual = b.data() + offset, .weight = w.data() + offset,
                                   .y = to_y.data() + offset, .residual_out = to_s.data() + offset, .rows = rows, .cols = cols,
                                   .x_stride = stride, .residual_stride = stride, .y_stride = stride, .residual_out_stride = stride};
    REQUIRE(detail::prepare(q, p, vector).ok());
    detail::row_selection s1;
    s1.choice = {match_kind::exact, entry, reduction};
    s1.vector = width;
    detail::visit_row_kernel<op, schedules>(s1, p, 1, [&]<class Kernel>(const detail::launch_size& size) {
      detail::run_on_host<Kernel>(p, size.blocks);
    });
    auto all = to_y;
    all.insert(all.end(), to_s.begin(), to_s.end());
    return all;
  }
};

bool same(const std::vector<bf16>& a, const std::vector<bf16>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(bf16)) == 0;
}

template <rounding R>
void compare() {
  for (int entry = 0; entry < schedules::count; ++entry) {
    const auto& frozen = schedules::rows[entry];
    const int width = frozen.config.schedule.load_bytes / 2;
    for (const long long cols : {frozen.cols_max, frozen.cols_max - 8, 8LL})
      for (const bool in_place : {false, true}) {
        CAPTURE(entry);
        CAPTURE(cols);
        CAPTURE(in_place);
        // As far off 16 bytes as this width allows.
        const runner<R> one(37, cols, width % 8, width % 8);
        const auto want = one.run(entry, frozen.config.reduction, 1, in_place);
        for (int v = 1; v <= width && v <= frozen.config.reduction.elements; v *= 2)
          CHECK(same(one.run(-1, frozen.config.reduction, v, in_place), want));
      }
  }
}

}  // namespace

TEST_CASE("schedules on the host team: clean, and no schedule or width changes a bit") { compare<rounding::none>(); }

TEST_CASE("schedules on the host team: the same where the sum and the norm are rounded") { compare<rounding::both>(); }
