// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// From run-off times to one entry of a config file: pure functions of the measurements.
#pragma once

#include <string>
#include <vector>

#include "autotune/compare.hpp"
#include "autotune/space.hpp"
#include "core/records.hpp"

namespace capstone::tools {

/// What a row count may lose where it shares a kernel with others.
inline constexpr double merge_band = 1.01;
/// What it may lose, one after the other, where a file would have more configs than `max_configs`.
inline constexpr double wider_bands[] = {1.015, 1.02, 1.03, 1.05};
/// Of a file. A user compiles the two variants of an op and some 8 kernels for what is not tuned:
/// 28 kernels, the limit of tests/check/budget.py.
inline constexpr std::size_t max_configs = 10;

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
  config incumbent = {};  ///< what was frozen for this row count before; empty: nothing, or it is stale
};

/// The run-offs of one column count.
struct cols_result {
  std::int64_t cols = 0;
  std::vector<shape_result> shapes;
};

/// The choice for one column count.
struct frozen_choice {
  config reduction;
  double worst = 1;             ///< of the reduction, against the best of any
  std::int64_t worst_rows = 0;  ///< where that is
  std::vector<config> configs;  ///< by row count, ascending
};

/// Chooses the reduction with the smallest worst loss over the row counts, then the fewest schedules within
/// it, see smallest_cover. What noise could have decided is left as it was:
/// - the incumbent reduction stays, unless another's worst loss is smaller by more than the tie band and it
///   is proven slower somewhere;
/// - an incumbent config stays at its row count, unless one is proven faster by more than the tie band. The
///   intervals allow for the number of challengers, because the fastest of many looks faster than it is;
/// - a config counts as tied with the fastest where its loss is proven to be within the band. Where noise is
///   too large for that, the fastest by the medians is taken.
/// With a `band` wider than merge_band incumbents lose their right, and `elsewhere` costs no kernel. Throws
/// std::invalid_argument where no reduction was measured at every row count.
/// \param elsewhere configs of other column counts of the file
frozen_choice choose(const op& of, std::vector<shape_result> shapes, const std::vector<config>& elsewhere,
                     double band = merge_band);

/// choose(), with its evidence: all published times are of the run-off.
cols_entry freeze_cols(const op& of, std::int64_t cols, std::vector<shape_result> shapes,
                       const std::vector<config>& elsewhere, double band = merge_band);

/// The entries of several column counts, ascending, in a file that keeps `elsewhere` besides: the first of
/// merge_band and wider_bands with which the file has at most `most` configs, or the widest. `notes` says
/// where that was not the first.
std::vector<cols_entry> freeze_all(const op& of, std::vector<cols_result> results, const std::vector<config>& elsewhere,
                                   std::size_t most, std::vector<std::string>& notes);

/// `fresh` with the cols of `before` that it has not; both are of the same kernel, dtype and
/// device. Says in `notes` what of `before` was dropped and why.
frozen_config merge(frozen_config fresh, const frozen_config& before,
                    std::vector<std::string>& notes);

}  // namespace capstone::tools
