// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `autotune explain`: which frozen entry serves a shape, and why, or why none. No GPU.
#pragma once

#include <string>
#include <vector>

#include "autotune/emit.hpp"
#include "core/device.hpp"
#include "core/records.hpp"
#include "core/spec.hpp"

namespace capstone::tools {

/// What a call finds in the tables that are made from `files`: as capstone::detail::choose does.
struct lookup {
  std::string match = "none";          ///< exact, range, other_device, none: as in match_kind
  const config_file* file = nullptr;   ///< that has the reduction, unless none
  const cols_entry* cols = nullptr;
  const rows_entry* rows = nullptr;    ///< nullptr: the row count takes the run-time path
};
lookup look_up(const std::vector<config_file>& files, const kernel_spec& kernel, const device_limits& where,
               std::int64_t rows, std::int64_t cols);

/// Prints which entry below `tree` serves `at` on a GPU like `where` and what the search behind it found:
/// what rules pruned, what failed how, what was timed. Returns whether an entry serves it.
bool explain(const std::string& tree, const op& of, const kernel_spec& kernel, const problem& at, const device& where);

}  // namespace capstone::tools
