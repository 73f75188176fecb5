// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The unit of a tuning run: one kernel, one column count, all its row counts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotune/freeze.hpp"
#include "autotune/launch.hpp"
#include "autotune/space.hpp"
#include "autotune/tune.hpp"
#include "core/records.hpp"

namespace capstone::tools {

/// One shape and what the rules leave there.
struct shape_work {
  problem at;
  std::vector<config> configs;
};

/// All shapes of one kernel and column count: they share candidates, compilations and a reduction.
struct group {
  const op* of = nullptr;
  const kernel_spec* kernel = nullptr;
  std::vector<shape_work> shapes;
  std::vector<candidate> candidates;  ///< the union over the shapes, default first, then shuffled
  std::vector<std::vector<std::string>> types;  ///< per candidate, every kernel type it is run as
  candidate_counts counts;

  std::int64_t cols() const { return shapes.front().at.shape.back(); }
  std::string name() const {
    return kernel->name() + " " + kernel->dtype + ", cols " + std::to_string(cols());
  }
};

/// The groups of a request, with their candidates and kernel types; prints what the rules left.
std::vector<group> make_groups(const tune_request& request, const device& where);

/// All kernel types by the header they need (one compilation includes one), in the order to compile
/// them: a candidate of every group in turn, so that a budget that ends early leaves each a share.
std::map<std::string, std::vector<std::string>> types_by_header(const std::vector<group>& groups);

/// Gates, screens and races the candidates of a group. Returns the run-offs of the shapes that have
/// any; candidates carry their status and counts. Throws device_crashed.
/// \param end where `limited`, the screening stops in time for it
std::vector<shape_result> tune_group(group& work, const device& where,
                                     const std::map<std::string, image>& images,
                                     std::uint64_t seed, deadline end, bool limited);

}  // namespace capstone::tools
