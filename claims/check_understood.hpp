// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The part of `claims check` that is about predictions and profiles.
#pragma once

#include <string>
#include <vector>

namespace capstone::claims {

struct understood_check {
  int records = 0;
  std::vector<std::string> problems;
  std::vector<std::string> notes;  ///< what could not be checked, and why
};

/// Every prediction reads, can fail, follows its predecessor by digest, rests on ceilings that are
/// there, and names the kernel and config that the library launches; none is gone from the history.
/// Every profile rests on a prediction that is byte for byte the one it names and that the commit it
/// was built from holds, and its verdicts are those that its numbers give.
understood_check check_understood(const std::string& root, const std::string& evidence);

}  // namespace capstone::claims
