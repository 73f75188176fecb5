// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims timeline`: when kernels and launches of the same calls run, fused and unfused, from a
/// stream and in a graph.
#pragma once

#include <string>
#include <vector>

#include "claims/select.hpp"

namespace capstone::claims {

struct timeline_options {
  std::string tracer = "auto";       ///< "nsys", "cupti", or "auto": nsys where it gives a report, else CUPTI
  std::vector<std::string> plugins;  ///< shared objects with specs, for this program under nsys
};

/// The command. Returns its exit code: 0; 2 for the host, which has no launches; 4 where nothing can be traced.
int timeline(const selection& wanted, const timeline_options& options, const device& where);

/// The same calls, with a marker before and after each window: what nsys traces. `calls`: of each lane of
/// each problem. Returns 0.
int launch_for_tracer(selection wanted, const device& where, const std::vector<int>& calls);

}  // namespace capstone::claims
