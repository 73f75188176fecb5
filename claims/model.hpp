// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// From what is known before a kernel runs (its problem, config, machine code, and the measured
/// ceilings of the GPU) to what the clock and the counters will say. docs/predictions.md derives it.
#pragma once

#include "claims/ceilings.hpp"
#include "claims/machine_code.hpp"
#include "claims/prediction.hpp"

namespace capstone::claims {

/// All that the model may look at.
struct model_inputs {
  const ceilings& measured;
  traffic_model traffic;
  work_model work;
  launch_identity launch;
  machine_code code;
  std::vector<std::pair<std::string, traffic_model>> rivals;  ///< other ways to do the same, by name
  std::int64_t rows = 0;  ///< of the problem's first dimension, for the crossover
  bool memory_only = false;
};

/// Fills launch, terms, binding, times, counters, rivals and crossover of `p`. Throws
/// std::runtime_error where the ceilings hold no counters.
void apply_model(const model_inputs& in, prediction& p);

/// "" or the sentence that refuses `p`: an interval that is wider than its cap, a rival story that
/// every interval would also fit, or one that is said to be excluded by other metrics than its values
/// are.
std::string why_cannot_fail(const prediction& p);

/// Blocks of a kernel that fit one SM, by NVIDIA's cuda_occupancy.h; 0 where not even one does.
/// Throws std::runtime_error for a device that the toolkit's header does not know.
int blocks_per_sm(int cc, int registers, int threads, std::int64_t smem_bytes);

}  // namespace capstone::claims
