// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims calibrate`: measures a GPU's ceilings and writes evidence/<device>/ceilings.yaml.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "claims/ceilings.hpp"
#include "core/device.hpp"

namespace capstone::claims {

struct calibrate_options {
  std::string out;         ///< the tree that holds evidence/; "" is the source tree
  std::uint64_t seed = 1;  ///< of the order of rounds and the intervals
  double budget_s = 0;     ///< no floor and no profile starts after this long; 0: no limit
};

/// Rate of an L2 that holds everything, the median over working sets of up to half of it. Throws
/// std::invalid_argument without such points.
double l2_plateau(const std::vector<l2_point>& points, std::int64_t l2_bytes);

/// The largest working set read at 80 % of `plateau` or more; 0 where none is.
std::int64_t l2_edge(const std::vector<l2_point>& points, double plateau);

/// The command. Returns its exit code: 0, also without counters, or 2 where it refused.
int calibrate(const calibrate_options& options, const tools::device& where);

}  // namespace capstone::claims
