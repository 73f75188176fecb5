// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The counters that claims are made about, by compute capability. `cc` is 10 * major + minor: 90
/// is sm_90. Canonical names, those in predictions and records, are sm_90's.
#pragma once

#include <string>
#include <vector>

namespace capstone::claims {

/// Time, bytes at each level, occupancy and instructions, which fit ONE pass: the kernel runs once,
/// nothing is saved and restored, and ratios are of one execution. Every metric more than these can
/// cost that, so what no prediction needs stays out. The launch__* ones cost nothing.
std::vector<std::string> core_metrics(int cc);

/// How busy the SMs' pipes and their clock were. sm__throughput is the largest of many
/// constituents, which take several passes, so these are a run of their own.
std::vector<std::string> pipes_metrics(int cc);

/// What this chip calls `canonical`. Chips that share the host's memory (sm_87, sm_110, sm_121) have
/// no DRAM counters under any name.
std::string metric_alias(const std::string& canonical, int cc);

}  // namespace capstone::claims
