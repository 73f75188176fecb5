// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Which of the correct candidates is fastest: a cheap screening of all, a run-off of the best.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "autotune/freeze.hpp"
#include "autotune/gate.hpp"
#include "autotune/launch.hpp"
#include "core/timer.hpp"

namespace capstone::tools {

inline constexpr int finalists_overall = 8;
inline constexpr int finalists_per_reduction = 2;
inline constexpr int reductions_kept = 3;

struct screened {
  config values;
  double us = 0;
};

/// The reductions with the smallest worst time, against the best of any, over all shapes: the ones
/// that a column count's shapes could agree on. At most `reductions_kept`.
std::vector<config> best_reductions(const op& of, const std::vector<std::vector<screened>>& shapes);

/// The fastest overall and the fastest of each kept reduction, fastest first.
std::vector<config> select_finalists(const op& of, std::vector<screened> results,
                                     const std::vector<config>& reductions);

/// The least time in which the bytes can move, from the GPU's peak bandwidth with a margin; 0 where
/// that is not known. What is faster was not cold, or did not do the work.
double implausible_below_us(const device& where, const traffic_model& traffic);

/// One shape's buffers, shared by all candidates, and their timings.
class shape_bench {
 public:
  shape_bench(const device& where, const op& of, const kernel_spec& kernel, const problem& at,
              loaded_kernels& kernels, std::uint64_t seed);

  /// Cold times of each in few short samples, `step` called after each batch with its size. Stops
  /// at `end`; what was not reached is not in the result.
  std::vector<screened> screen(const std::vector<config>& configs, deadline end,
                               const std::function<void(std::size_t)>& step);

  /// Interleaved with the default in randomised rounds.
  std::vector<finalist> run_off(const std::vector<config>& configs);

  const problem& shape() const { return at_; }
  buffer_set& first_set() { return sets_.front(); }

 private:
  arm arm_of(const std::string& name, const std::vector<launch_plan>& plans);
  std::vector<launch_plan> plans_of(const config& values) const;
  std::vector<launch_plan> default_plans() const;
  timing_options options(int rounds, double sample_us, double warm_up_ms) const;

  const device& where_;
  const op& op_;
  const kernel_spec& kernel_;
  problem at_;
  loaded_kernels& kernels_;
  std::uint64_t seed_;
  std::vector<buffer_set> sets_;
  bool warm_ = false;
};

}  // namespace capstone::tools
