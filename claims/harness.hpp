// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims launch-for-profiler`: what runs under the profiler. Of no use by hand.
#pragma once

#include "claims/select.hpp"

namespace capstone::claims {

/// Calls every selected kernel `launches` times on every problem between cudaProfilerStart and
/// Stop, a marker before each call, and checks the outputs afterwards. It times nothing: under a
/// profiler every time is the profiler's. Prints a `harness_line` for each problem; returns 0 also
/// where an output is wrong, so that the other problems are still profiled.
int harness(selection wanted, const device& where, int launches);

}  // namespace capstone::claims
