// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Frozen configs and how a call finds its own.
#pragma once

#include <capstone/detail/row_config.cuh>

namespace capstone {

/// How well a frozen entry fits a call.
enum class match_kind : int {
  exact,         ///< tuned on this device for these cols and this row count
  range,         ///< these cols and rows lie in a range an entry covers
  other_device,  ///< tuned on another GPU of the same compute capability
  none,          ///< no entry: the default config
};

/// What a call would do: for logs and tools.
struct config_choice {
  match_kind match = match_kind::none;  ///< none: no frozen config for this device; `autotune` makes one
  row_config config;      ///< on the run-time path its reduction and default schedule
  bool fallback = false;  ///< an entry has the cols, but alignment or row count takes the run-time path
};

namespace detail {

/// What identifies a GPU for tuning.
struct device_key {
  int cc = 0, sms = 0;  ///< 10 * major + minor, multiprocessors
  int64 l2_bytes = 0;
  friend CAPSTONE_FN constexpr bool operator==(const device_key&, const device_key&) = default;
};

template <class Config>
struct table_row {
  device_key device;
  const char* variant;
  const char* dtype;
  int64 cols_min, cols_max;
  int64 rows_min, rows_max;  ///< rows_max 0: open
  int64 rows_tuned;
  Config config;
};

constexpr bool same_text(const char* a, const char* b) {
  for (; *a != 0 && *a == *b; ++a, ++b) {
  }
  return *a == *b;
}

/// The answer of a look-up: a row of the table, or the run-time path with a reduction.
struct row_choice {
  match_kind match = match_kind::none;
  int row = -1;             ///< index into the table; -1: the run-time path
  row_reduction reduction;  ///< the same on either path
};

/// Two steps, never "nearest": the reduction by cols (exact, then a range, then another device of
/// the same compute capability, then the default), then the schedule by rows within it.
template <class Table>
constexpr row_choice choose(const device_key& device, const char* variant, const char* dtype,
                            int64 rows, int64 cols, int element_bytes) {
  const auto fits = [&](int i, bool same_device, bool exact) {
    const auto& r = Table::rows[i];
    return (same_device ? r.device == device : r.device.cc == device.cc) &&
           same_text(r.variant, variant) && same_text(r.dtype, dtype) && r.cols_min <= cols &&
           cols <= r.cols_max && (!exact || r.cols_min == r.cols_max);
  };
  for (int pass = 0; pass < 4; ++pass) {
    const bool same_device = pass < 2, exact = pass % 2 == 0;
    for (int i = 0; i < Table::count; ++i) {
      if (!fits(i, same_device, exact)) continue;
      row_choice found{same_device ? match_kind::range : match_kind::other_device, -1,
                       Table::rows[i].config.reduction};
      for (int k = i; k < Table::count; ++k) {
        const auto& r = Table::rows[k];
        if (!fits(k, same_device, exact) || !(r.device == Table::rows[i].device) ||
            !(r.config.reduction == found.reduction) || rows < r.rows_min ||
            (r.rows_max != 0 && rows > r.rows_max))
          continue;
        found.row = k;
        if (same_device && exact && rows == r.rows_tuned) found.match = match_kind::exact;
        break;
      }
      return found;
    }
  }
  return {match_kind::none, -1, default_reduction(cols, element_bytes)};
}

}  // namespace detail
}  // namespace capstone
