// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The tuning run: space, compile, gate, screen, run-off, freeze.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/progress.hpp"

namespace capstone::tools {

/// Part `index`, counted from 1, of `count`; the unit is one kernel and column count.
struct shard {
  int index = 1, count = 1;
};

struct tune_request {
  std::vector<std::string> kernels;
  std::string dtype;
  std::vector<problem> problems;     ///< of every kernel
  std::vector<std::string> devices;  ///< GPUs' numbers, or "host"; of one kind
  std::string out;                   ///< the tree that gets configs/, the table and .autotune/
  std::string table;                 ///< name of a table of the user's; "": the shipped one's place
  std::string scratch;               ///< below here temporary files go
  std::chrono::milliseconds budget{0};  ///< 0: no limit
  std::chrono::milliseconds candidate_timeout = std::chrono::seconds(20);
  std::uint64_t seed = 1;
  int jobs = 1;
  int max_candidates = 0;            ///< per column count; 0: no limit
  std::size_t audit = 0;             ///< this many configs that a rule alone prunes are tried, a rule and shape
  bool dry_run = false;
  bool resume = false;
  bool simulated = false;            ///< times follow from the configs alone: a self-test
  shard part;                        ///< with more than one, nothing is frozen: see merge_journals
  std::vector<std::string> plugins;  ///< that the workers load too
  std::string program = "/proc/self/exe";  ///< that serves `worker` and `compiler`
};

/// Exit codes, as --help documents them.
enum exit_code : int {
  exit_ok = 0, exit_usage = 1, exit_invalid = 2, exit_no_candidate = 3, exit_partial = 4,
  exit_no_device = 5, exit_busy = 6
};

/// Tunes, freezes and prints; returns the exit code. Throws device_failed, device_busy, record_error.
int tune(const tune_request& request);

/// Freezes what the shards' journals below `out` hold and says what is missing; returns the exit code.
int merge_journals(const std::string& out, const std::string& table);

/// Limits of a GPU that is not here: 90 as in sm_90. Known for some, else a guess.
device_limits limits_of_arch(int cc);

/// From here on stdout gets one JSON object a line, and what is for people goes to stderr.
void print_json_lines();
/// Prints a line where print_json_lines was called.
void print_json(const nlohmann::json& line);

}  // namespace capstone::tools
