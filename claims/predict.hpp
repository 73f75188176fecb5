// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims predict`: writes down, without a GPU, what the profiler and the clock will say.
#pragma once

#include <string>

#include "claims/model.hpp"
#include "claims/select.hpp"

namespace capstone::claims {

struct predict_options {
  std::string device;     ///< id with ceilings in evidence/; "" where there is only one
  bool supersede = false; ///< write a successor where there is a prediction already
  std::string why;        ///< what was wrong with the one that is superseded
  bool memory_only = false;
};

/// The prediction for one problem from these ceilings; nothing is written. `digest` is the ceilings'
/// file's. Throws std::runtime_error with a sentence where it cannot be made.
prediction make_prediction(const op& of, const kernel_spec& kernel, const problem& what, const ceilings& measured,
                           const std::string& digest, bool memory_only);

/// The command. Returns its exit code: 0, or 2 where it refused something; then nothing of what it
/// refused is written.
int predict(const selection& wanted, const predict_options& options);

}  // namespace capstone::claims
