// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Children that answer lines: what they run may crash or never end.
#pragma once

#include <csignal>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/process.hpp"

namespace capstone::tools {

/// The child is gone; the text says how it ended.
struct child_died : std::runtime_error {
  explicit child_died(const std::string& how, int signal = 0) : std::runtime_error(how), signal(signal) {}
  int signal;  ///< that ended it, or 0
  /// By somebody else, an operator or the kernel short of memory: nothing that a candidate does raises these.
  bool was_killed() const { return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGHUP; }
};

/// The child did not answer in time; it has been killed.
struct child_late : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A program in a process group of its own that answers lines with lines on file descriptor 3 (what
/// it prints goes to stderr). It dies with the thread that made it.
class subprocess {
 public:
  static constexpr int channel = process::channel;

  /// Throws std::runtime_error where the program cannot be started.
  explicit subprocess(const std::vector<std::string>& arguments);
  ~subprocess();  ///< kills it and what it started
  subprocess(const subprocess&) = delete;
  subprocess& operator=(const subprocess&) = delete;

  /// Sends a line and waits for one. Throws child_died, child_late, or stopped.
  std::string ask(const std::string& line, deadline until);

 private:
  [[noreturn]] void report_death();

  std::optional<process> child_;
  int socket_ = -1;
  std::string received_;  // behind the last line
};

/// The child's side: reads requests until the parent is gone and answers each with what `answer` gives.
/// A child whose parent's thread dies is killed, so that no orphan keeps a GPU busy.
int serve_lines(std::string (*answer)(const std::string& line));

}  // namespace capstone::tools
