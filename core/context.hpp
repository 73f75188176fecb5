// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Where a record comes from: which code, which binary, when.
#pragma once

#include <string>

namespace capstone::tools {

/// The source tree: the environment's CAPSTONE_ROOT, else the folder the tools were built from.
std::string source_root();

/// What `git <arguments>` prints in `root`, without the last newlines; "" where it fails. The arguments
/// go to a shell.
std::string git_output(const std::string& root, const std::string& arguments);

struct run_context {
  std::string session;  ///< "20261130T213900Z-1a2b3c4d", another one for every run
  std::string date;     ///< "2026-11-30T21:39:00Z"
  std::string commit;   ///< of source_root(), "" where it is no checkout
  bool dirty = false;   ///< files other than those in evidence/ differ from that commit
  std::string binary;   ///< "sha256:…" of the running program
  std::string toolkit;  ///< of the compiler, e.g. "13.0.88"
  std::string flags;    ///< what the kernels in this program were compiled with
};

/// The environment's CAPSTONE_COMMIT stands in for git where the tree travels without its history:
/// "<commit>" or "<commit>-dirty".
run_context this_run();

}  // namespace capstone::tools
