// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims timeline`: when kernels and launches of the same calls run, fused and unfused, from a
/// stream and in a graph.
#pragma once

#include "claims/select.hpp"

namespace capstone::claims {

/// The command. Returns its exit code: 0; 2 for the host, which has no launches; 4 where nothing can be traced.
int timeline(const selection& wanted, const device& where);

}  // namespace capstone::claims
