// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace capstone::tools {

/// A closed interval; low <= high.
struct interval {
  double low = 0;
  double high = 0;
};

/// The median of per-round ratios and its bootstrap interval.
struct ratio_band {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// Middle value; the mean of the two middle values when the count is even.
double median(std::span<const double> values);

/// Quantile for q in [0, 1], linear between neighbours (q = 0 is the minimum, q = 1 the maximum).
double quantile(std::span<const double> values, double q);

/// Percentile bootstrap interval of the median. The same seed gives the same interval on every
/// machine. One value gives an interval of zero width, which says nothing: take more rounds.
interval bootstrap_median(std::span<const double> values, std::uint64_t seed, int resamples = 1000,
                          double level = 0.95);

/// Median and 95 % bootstrap interval of numerator[i] / denominator[i]. The two belong to the same
/// rounds, so they have the same length; a ratio above 1 says that the numerator took longer.
ratio_band paired_ratio(std::span<const double> numerator, std::span<const double> denominator,
                        std::uint64_t seed);

/// Median of the paired log ratios and its sign-test interval, both as ratios: exact at any `level` for
/// any independent noise, without resampling, and turned round the same (a / b is 1 over b / a). Where
/// the values are too few for the level the interval is (0, infinity): nothing can be proven.
ratio_band sign_test_ratio(std::span<const double> numerator, std::span<const double> denominator,
                           double level = 0.95);

}  // namespace capstone::tools
