// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What the recorded races support, in words that go no further than they do.
#pragma once

#include <string>
#include <vector>

#include "claims/prediction.hpp"

namespace capstone::claims {

/// What the races of one kernel and dtype against one baseline say.
struct speed_sentence {
  std::string device, kernel, dtype, baseline;
  bool fused = true;  ///< the baseline is a fused kernel as well
  std::string text;
};

/// "" or why nothing is claimed from this arm of this comparison: void, a clock that moved, a
/// baseline without a version, one slower against the floor than it was in another session.
std::string why_no_claim(const comparison& c, const arm_row& baseline, const std::vector<session_record>& sessions,
                         const std::string& device);

/// For every kernel, dtype and baseline of the sessions, by the latest comparison of each shape.
/// Shapes without a passed verify record are left out, and said so. A fused and an unfused baseline
/// of one kernel follow each other. `predictions` give the crossover and the share of launch.
std::vector<speed_sentence> speed_sentences(const std::vector<session_record>& sessions, const std::vector<verify_record>& verified,
                                            const std::vector<prediction>& predictions);

}  // namespace capstone::claims
