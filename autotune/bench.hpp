// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The timings of one shape.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "autotune/launch.hpp"
#include "core/buffers.hpp"
#include "core/timer.hpp"

namespace capstone::tools {

/// One shape's buffers, shared by all candidates.
class shape_bench {
 public:
  /// Throws std::bad_alloc where the buffers do not fit.
  shape_bench(const device& where, const op& of, const kernel_spec& kernel, const problem& at,
              loaded_kernels& kernels, std::uint64_t seed);

  /// Cold times of all arms in randomised rounds; an arm without a config is the default schedule.
  timing time(const std::vector<std::optional<config>>& arms, int rounds, double sample_us, double warm_up_ms);

  const problem& shape() const { return at_; }
  /// Buffers on which a candidate may run untimed.
  buffer_set& first_set() { return sets_.front(); }

 private:
  std::vector<launch_plan> plans_of(const std::optional<config>& values) const;

  const device& where_;
  const op& op_;
  const kernel_spec& kernel_;
  problem at_;
  loaded_kernels& kernels_;
  std::uint64_t seed_;
  std::vector<buffer_set> sets_;
};

}  // namespace capstone::tools
