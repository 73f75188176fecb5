// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims bench`: capstone against its baselines, the streaming floor and itself, interleaved in
/// one session.
#pragma once

#include <string>

#include "claims/select.hpp"
#include "core/timer.hpp"

namespace capstone::claims {

struct bench_options {
  int rounds = 40;
  double budget_s = 0;  ///< no comparison starts after this long; 0: no limit
};

/// "" if `verify` passed this problem with this config in this binary, else why it may not be
/// raced. Reads the record below `out`.
std::string why_unverified(const std::string& out, const std::string& device, const op& of,
                           const kernel_spec& kernel, const problem& what,
                           const config_values& config, const std::string& binary);

/// "" unless `root`'s frozen config for this kernel was tuned from another source, else a sentence.
std::string why_stale(const std::string& root, const std::string& device, const op& of,
                      const kernel_spec& kernel);

/// Fills the arms, the floor target, clocks and power of `result` from the samples: medians with
/// their bands, and the medians of the per-round ratios over arm `own_name`. The arms in
/// `floor_arms` compete for being the floor; the one with the smallest median is it.
void summarise(const timing& timed, const std::vector<std::string>& floor_arms, std::uint64_t seed,
               comparison& result);

/// The command. Returns its exit code: 0, or 2 where it refused something.
int bench(const selection& wanted, const device& where, const bench_options& options);

}  // namespace capstone::claims
