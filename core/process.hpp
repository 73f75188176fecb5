// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Programs that are started and can be killed, with all that they start in turn.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace capstone::tools {

using deadline = std::chrono::steady_clock::time_point;

/// A signal asked this program to stop (see stop_on_signals).
struct stopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a program is started with. Its standard input is empty.
struct process_setup {
  std::vector<std::string> arguments;  ///< the program first, looked for on the PATH
  std::string output = {};  ///< file for what it prints; "": it goes to our standard error
  std::string errors = {};  ///< file for its standard error; "": where `output` goes
  std::vector<std::string> environment = {};  ///< "NAME=value", instead of ours or added
  int channel = -1;                           ///< a descriptor of ours that it has as its 3
};

/// A running program in a process group of its own. The group is killed with this object and when this
/// program ends in whatever way, kill -9 included.
class process {
 public:
  static constexpr int channel = 3;

  /// Throws std::runtime_error, which names the program, where it cannot be started.
  explicit process(const process_setup& setup);
  ~process() { kill_group(); }
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  /// How it ended, as waitpid tells it, or nothing while it runs. What it started ends with it.
  std::optional<int> ended();
  void kill_group();
  bool is_running() const { return pid_ > 0; }

 private:
  void end_guard();

  pid_t guard_ = -1, pid_ = -1;
  int life_ = -1;  // the guard kills the group when this is closed
};

/// Runs a program to its end or `until`. Returns its exit code, 128 plus the signal that ended it, or -1
/// where it was killed at the deadline. Throws `stopped`.
int run_to_end(const process_setup& setup, deadline until);

/// From here on this program is killed when its parent ends. For one that is started by another's means,
/// which may take it out of its group.
void end_with_parent();

/// From here on SIGINT and SIGTERM end waits with `stopped` instead of the program; a second one ends
/// the program.
void stop_on_signals();
bool stop_requested();

}  // namespace capstone::tools
