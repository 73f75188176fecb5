// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// How a call finds its config: the reduction by columns alone, then the schedule by rows; never a
// config of another kind of device.

#include <capstone/fused.cuh>

#include <doctest/doctest.h>

using namespace capstone;
using detail::choose;
using detail::device_key;

namespace {

constexpr device_key h200 = {90, 132, 62914560}, slice = {90, 16, 62914560}, a100 = {80, 108, 41943040};
constexpr detail::table_row<row_config> row(device_key d, long long cols_min, long long cols_max, long long rows_min,
                                            long long rows_max, long long tuned, int lanes, int load_bytes = 16) {
  return {d, "", "bf16", cols_min, cols_max, rows_min, rows_max, tuned,
          {.reduction = {lanes, 8, 1}, .schedule = {.load_bytes = load_bytes}}};
}
struct table {
  static constexpr int count = 5;
  static constexpr detail::table_row<row_config> rows[] = {
      row(h200, 4000, 5000, 1, 0, 64, 64),       // a range stands before the exact entry on purpose
      row(h200, 4096, 4096, 1, 1, 1, 128, 8),
      row(h200, 4096, 4096, 2, 64, 64, 128),     // nothing beyond 64 rows
      row(a100, 4096, 4096, 1, 0, 64, 256),
      row(h200, 512, 512, 1, 0, 64, 32),
  };
};
detail::row_choice at(const device_key& d, long long rows, long long cols, const char* variant = "", const char* dtype = "bf16") {
  return choose<table>(d, variant, dtype, rows, cols, 2);
}

}  // namespace

TEST_CASE("table: exact columns come before a range, and a tuned row count is exact") {
  CHECK(at(h200, 1, 4096).row == 1);
  CHECK(at(h200, 1, 4096).match == match_kind::exact);
  CHECK(at(h200, 64, 4096).row == 2);
  CHECK(at(h200, 63, 4096).match == match_kind::range);
  CHECK(at(h200, 7, 4500).row == 0);
  CHECK(at(h200, 7, 4500).match == match_kind::range);
}

TEST_CASE("table: the reduction does not depend on the rows, whether a schedule covers them or not") {
  for (const long long rows : {1, 2, 63, 64, 65, 1 << 30}) CHECK(at(h200, rows, 4096).reduction.lanes == 128);
  CHECK(at(h200, 65, 4096).row == -1);  // never the nearest schedule
}

TEST_CASE("table: a config of another device serves only the same compute capability, and says so") {
  CHECK(at(slice, 1, 4096).match == match_kind::other_device);
  CHECK(at(slice, 1, 4096).reduction.lanes == 128);
  CHECK(at({100, 148, 1}, 1, 4096).match == match_kind::none);
  CHECK(at({100, 148, 1}, 1, 4096).reduction == detail::default_reduction(4096, 2));
  CHECK(at(a100, 1, 4096).reduction.lanes == 256);
  CHECK(at(a100, 1, 512).match == match_kind::none);
  CHECK(at({}, 1, 4096).match == match_kind::none);
}

TEST_CASE("table: another variant, dtype or column count finds nothing") {
  CHECK(at(h200, 1, 4096, "+residual").match == match_kind::none);
  CHECK(at(h200, 1, 4096, "", "f16").match == match_kind::none);
  CHECK(at(h200, 1, 4096, "", "bf16-f32-bf16").match == match_kind::none);
  CHECK(at(h200, 1, 511).match == match_kind::none);
  CHECK(at(h200, 1, 5001).match == match_kind::none);
}

TEST_CASE("table: a call off alignment falls back to the run-time path with the same reduction") {
  alignas(16) static bf16 x[4096 + 8], y[4096 + 8];
  using mine = rms_norm_options<rounding::none, table>;
  for (const int offset : {0, 1, 2, 4}) {
    const config_choice c = rms_norm_query<bf16, bf16, bf16, mine>({.x = x + offset, .y = y + offset, .rows = 1, .cols = 4096}, h200);
    CAPTURE(offset);
    CHECK(c.match == match_kind::exact);
    CHECK(c.config.reduction == row_reduction{128, 8, 1});
    CHECK(c.fallback == (offset == 1 || offset == 2));  // 8-byte loads are frozen
  }
  const config_choice c = rms_norm_query<bf16, bf16, bf16, mine>({.x = x, .y = y, .rows = 0, .cols = 4096}, h200);
  CHECK_FALSE(c.match == match_kind::exact);
}
