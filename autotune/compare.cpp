// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/compare.hpp"

#include <algorithm>

#include "core/stats.hpp"

namespace capstone::tools {

comparison compare(std::span<const double> us, std::span<const double> other_us, std::size_t comparisons) {
  const double level = 1 - 0.05 / static_cast<double>(std::max<std::size_t>(1, comparisons));
  const auto found = sign_test_ratio(us, other_us, level);
  return {found.median, found.low, found.high};
}

}  // namespace capstone::tools
