// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The gate: a candidate that is not correct is never timed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "autotune/launch.hpp"
#include "autotune/space.hpp"
#include "core/buffers.hpp"

namespace capstone::tools {

/// Tests candidates of one kernel for one column count. Per reduction the run-time path is compared
/// with the float64 reference once (a slow thing to do); a candidate must then give that path's
/// bits everywhere, which is batch invariance and correctness in one.
class gate {
 public:
  gate(const device& where, const op& of, const kernel_spec& kernel, const problem& shape,
       executor run, std::uint64_t seed);

  /// The problems that a config is tested on: few rows, around the tile's edges, default and padded
  /// strides, aligned and not.
  std::vector<problem> problems(const config& values) const;

  /// All of `problems`, on buffers that all candidates share; the last one twice.
  verdict test(const config& values);

  /// One problem, on `buffers`. Damage, unwritten elements, other bits than the run-time path's
  /// and, where that is `compared` with the reference, wrong values: none passes.
  verdict test_at(const problem& at, buffer_set& buffers, const config& values, bool compared);

 private:
  struct outcome {
    verdict result;
    std::uint64_t hash = 0;
  };
  outcome run(buffer_set& buffers, const launch_plan& plan);
  verdict compare(const problem& at, buffer_set& buffers, const config& values);
  const outcome& run_time_path(const problem& at, buffer_set& buffers, const config& values,
                               bool compared);
  buffer_set& buffers_of(const problem& at);

  const device& where_;
  const op& op_;
  const kernel_spec& kernel_;
  problem shape_;
  executor run_;
  std::uint64_t seed_;
  std::map<std::string, buffer_set> buffers_;
  std::map<std::string, outcome> references_;
};

}  // namespace capstone::tools
