// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Who goes on in the search: pure functions of what was measured.
#pragma once

#include <cstddef>
#include <vector>

#include "core/spec.hpp"

namespace capstone::tools {

inline constexpr std::size_t finalists_overall = 8;
inline constexpr int finalists_per_reduction = 2;
inline constexpr int reductions_kept = 3;

/// A candidate's time at one shape over the default's in the same rounds.
struct screened {
  config values;
  double ratio = 0;
};

/// One stage of successive halving: `rounds` samples of `sample_us` each, and the best 1 / `keep` go on.
struct rung {
  int rounds;
  double sample_us;
  std::size_t keep;
};
inline constexpr rung rungs[] = {{3, 200, 4}, {8, 300, 4}};

/// The reductions with the smallest worst time, against the best of any, over all shapes: the ones
/// that a column count's shapes could agree on. At most `reductions_kept`.
std::vector<config> best_reductions(const op& of, const std::vector<std::vector<screened>>& shapes);

/// The `overall` fastest and the fastest of each kept reduction, fastest first.
std::vector<config> select_fastest(const op& of, std::vector<screened> results, const std::vector<config>& reductions,
                                   std::size_t overall);

/// The least time in which the bytes can move, from the GPU's peak bandwidth with a margin of a tenth; 0
/// where that is not known. What is faster was not cold, or did not do the work.
double implausible_below_us(double peak_gbps, std::int64_t l2_bytes, const traffic_model& traffic);

}  // namespace capstone::tools
