// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims profile`: what was predicted against the profiler's counters and the clock.
#pragma once

#include <string>
#include <vector>

#include "claims/select.hpp"

namespace capstone::claims {

struct profile_options {
  int launches = 5;         ///< profiled calls of each problem
  int rounds = 15;          ///< of the times without the profiler
  bool unverified = false;  ///< go on without `verify`; such a profile is INVALID
  std::vector<std::string>
      plugins;  ///< shared objects with specs, for the program under the profiler
};

/// The command. Refuses before anything runs what has no current prediction or was not verified.
/// Returns its exit code: 0 where every problem is CONFIRMED, 2 where it refused, 3 where one is
/// REFUTED or INVALID, 4 where the worst is INCONCLUSIVE.
int profile(const selection& wanted, const profile_options& options, const device& where);

}  // namespace capstone::claims
