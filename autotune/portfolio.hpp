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

/// What a config would cost at one row count.
struct offer {
  std::int64_t loss_ppm = 0;  ///< over the fastest there, in millionths; 0 where it is tied with it
  bool tied = false;          ///< proven to lose no more than the tie band, or the fastest itself
};

/// A config and where it may serve.
struct contender {
  std::map<std::size_t, offer> at;  ///< by row count's index: where its loss is within the merge band
  bool free = false;                ///< compiled anyway
  bool known = false;               ///< other column counts of the file have it
  bool incumbent = false;
  int threads = 0;
};

/// For each of `row_counts` the config that serves it. A config that serves several, or is free, may use
/// the merge band; one that would be compiled for a single row count saves nothing and must be tied there.
/// Of all ways this is one with the fewest configs; then with the smallest total loss; then with the most
/// known, the most incumbents, the fewest threads, and the smaller values: exact, and the same whatever the
/// order of measurements. Every row count needs a contender that is tied there.
std::vector<config> smallest_cover(const std::map<config, contender>& contenders, std::size_t row_counts);

}  // namespace capstone::tools
