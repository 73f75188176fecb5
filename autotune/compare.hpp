// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// When two arms of a run-off are called different: the one criterion of the tuner's verdicts.
#pragma once

#include <cstddef>
#include <span>

namespace capstone::tools {

/// Times this close are tied: the difference is not worth a kernel.
inline constexpr double tie_band = 1.005;

/// One arm's time over another's: the median of the rounds' ratios and its interval.
struct comparison {
  double ratio = 1, low = 1, high = 1;
  bool slower() const { return low > tie_band; }       ///< proven: the whole interval is beyond the band
  bool faster() const { return high < 1 / tie_band; }  ///< as well
  bool different() const { return slower() || faster(); }
  bool within() const { return high <= tie_band; }     ///< proven to lose no more than the band
};

/// Compares two arms of the same rounds. Who tries `comparisons` pairs, to see whether any differs, has as
/// many chances to be fooled; the interval's level is 95 % for all of them together (Bonferroni).
comparison compare(std::span<const double> us, std::span<const double> other_us, std::size_t comparisons = 1);

}  // namespace capstone::tools
