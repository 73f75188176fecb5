// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// A line on stderr that says what is left.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace capstone::tools {

/// A line on stderr that says what is left. Rewritten on a terminal, else now and then a new one.
class progress {
 public:
  progress(std::string what, std::size_t total);
  void step(std::size_t count);
  void finish();

 private:
  void show();
  std::string what_;
  std::size_t total_, done_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_, shown_;
};

}  // namespace capstone::tools
