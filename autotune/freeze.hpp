// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// From run-off times to one entry of a config file: pure functions of the measurements.
#pragma once

#include <string>
#include <vector>

#include "autotune/space.hpp"
#include "core/records.hpp"

namespace capstone::tools {

/// Configs within this of the best are tied: the difference is not worth a kernel.
inline constexpr double tie_band = 1.005;
/// What may be lost where one kernel then serves several row counts.
inline constexpr double merge_band = 1.01;

/// One arm of a run-off: a sample a round, the same rounds for all arms of a shape.
struct finalist {
  config values;
  int threads = 0;  ///< of a block
  std::vector<double> us;
};

/// The run-off at one row count.
struct shape_result {
  std::int64_t rows = 0;
  std::vector<double> default_us, twin_us;  ///< the default schedule, twice
  std::vector<finalist> finalists;
};

/// Picks the reduction with the smallest worst relative time over `shapes`, then a schedule for
/// each row count. Among ties a config that other shapes use (here, or `chosen` elsewhere in the
/// file) wins, then fewer threads, then the smaller values. Throws std::invalid_argument where no
/// reduction was measured at every row count.
cols_entry freeze_cols(const op& of, std::int64_t cols, std::vector<shape_result> shapes,
                       const std::vector<config>& chosen);

/// `fresh` with the cols of `before` that it has not; both are of the same kernel, dtype and
/// device. Says in `notes` what of `before` was dropped and why.
frozen_config merge(frozen_config fresh, const frozen_config& before,
                    std::vector<std::string>& notes);

}  // namespace capstone::tools
