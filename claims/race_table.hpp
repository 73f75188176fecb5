// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What races against other libraries (`tools/race`) came to, by suite and peer.
#pragma once

#include <string>
#include <vector>

#include "claims/record.hpp"

namespace capstone::claims {

/// One peer, or the floor, over the shapes of a suite. A win is a CONFIRMED speedup, a loss a REFUTED one, a tie
/// neither; against the floor these are its target met, missed, or neither.
struct peer_score {
  std::string device, kernel, dtype, suite, peer;
  int wins = 0, ties = 0, losses = 0;
  double worst = 0;         ///< the least of peer / capstone
  std::string worst_shape;
};

/// By suite; the most losses first, then the worst ratio. Of a shape raced twice the later one counts; void
/// races do not.
std::vector<peer_score> scores_of(const std::vector<session_record>& sessions);

/// As Markdown: the scores, and who was not raced and why. "" without races.
std::string race_markdown(const std::vector<session_record>& sessions);

}  // namespace capstone::claims
