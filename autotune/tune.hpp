// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The tuning run: space, compile, gate, screen, run-off, freeze.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/progress.hpp"
#include "core/device.hpp"

namespace capstone::tools {

struct tune_request {
  std::vector<std::string> kernels;
  std::string dtype;
  std::vector<problem> problems;  ///< of every kernel
  std::string device;             ///< "", a GPU's number or "host"
  std::string out;                ///< the tree that gets configs/ and the table
  std::string table;              ///< name of a table of the user's; "": the shipped one's place
  std::string scratch;            ///< below here temporary files go
  std::chrono::milliseconds budget{0};  ///< 0: no limit
  std::uint64_t seed = 1;
  int jobs = 1;
  int max_candidates = 0;         ///< per column count; 0: no limit
  bool dry_run = false;
};

/// Exit codes, as --help documents them.
enum exit_code : int {
  exit_ok = 0, exit_usage = 1, exit_invalid = 2, exit_no_candidate = 3, exit_budget = 4,
  exit_no_device = 5
};

/// Tunes, freezes and prints; returns the exit code.
int tune(const tune_request& request);

/// Writes the table of `op_name` from the configs below `tree`; returns its path.
std::string write_table(const std::string& tree, const std::string& op_name,
                        const std::string& table);

/// Limits of a GPU that is not here: 90 as in sm_90. Known for some, else a guess.
device_limits limits_of_arch(int cc);

}  // namespace capstone::tools
