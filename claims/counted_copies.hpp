// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What the profiler's counters read for plain streaming kernels, whose bytes are known.
#pragma once

#include <string>
#include <vector>

#include "claims/ceilings.hpp"
#include "claims/ncu.hpp"
#include "claims/probe.hpp"
#include "core/device.hpp"

namespace capstone::claims {

/// Copies from 24 KB to 1 GB, one and two streams each way, by the variant that was the fastest at
/// the nearest size in `floors`.
std::vector<probed_copy> copies_to_count(const std::vector<floor_point>& floors);

/// The ceilings that two profiles of `probe` over `copies` show: `core` with core_metrics(cc),
/// `pipes` with pipes_metrics(cc). Rows are matched by their order, so another count of them,
/// another kernel or a counter that is n/a is an ncu_error.
counter_ceilings counters_from(const std::vector<probed_copy>& copies, const ncu_table& core,
                               const ncu_table& pipes, int cc, std::int64_t l2_bytes);

/// Profiles this very program as `claims probe`; reports are kept below `folder`. Throws ncu_error
/// where the profiler is missing, denied or not understood.
counter_ceilings count_copies(const tools::device& where, const std::vector<floor_point>& floors,
                              const std::string& folder);

}  // namespace capstone::claims
