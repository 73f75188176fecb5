// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What can become of a candidate: the words of tables, journals and `--json` lines.
#pragma once

#include <string>

namespace capstone::tools {

/// Only `ok` ones are timed, and only those that stay `ok` can win.
enum class status {
  ok,
  untried,           ///< the budget ended first
  pruned,            ///< breaks a rule
  compile_error,
  compile_timeout,   ///< the compiler was stopped at its deadline
  spilled,           ///< the compiler spilled registers
  wrong,             ///< outside the tolerance, damaged memory, or not the reduction's bits
  nondeterministic,  ///< two runs on the same data differ
  crash,             ///< the device reported an error, or the worker died
  timeout,           ///< the worker was killed at the step's deadline
  out_of_memory,     ///< its buffers do not fit
  launch_error,      ///< the launch was refused
  implausible        ///< faster than the memory can be
};

const char* token(status state);

/// The way back. Throws std::invalid_argument with the words there are.
status status_of(const std::string& word);

/// A status and, unless ok or untried, a sentence.
struct verdict {
  status state = status::ok;
  std::string why = {};
};

}  // namespace capstone::tools
