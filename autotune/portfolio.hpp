// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The fewest schedules that serve all row counts of a column count: every kernel is compiled by users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/spec.hpp"

namespace capstone::tools {

/// A config and where it may serve.
struct contender {
  /// By row count's index, where it is within the merge band: its loss over the fastest there, in
  /// millionths, and 0 where it is tied with it.
  std::map<std::size_t, std::int64_t> loss;
  bool free = false;   ///< compiled anyway
  bool known = false;  ///< other column counts of the file have it
  bool incumbent = false;
  int threads = 0;
};

/// For each of `row_counts` the config that serves it: of all ways one with the fewest configs to compile;
/// then with the smallest total loss (so a loss is only paid where it saves a kernel); then with the most
/// known, the most incumbents, the fewest threads, and the smaller values. Exact, and the same whatever the
/// order of measurements. Every row count needs a contender.
std::vector<config> smallest_cover(const std::map<config, contender>& contenders, std::size_t row_counts);

}  // namespace capstone::tools
