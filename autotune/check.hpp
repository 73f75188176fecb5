// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `autotune check`: are the frozen configs valid and current? Needs no GPU and no compiler.
#pragma once

#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/records.hpp"

namespace capstone::tools {

struct findings {
  std::vector<std::string> errors, warnings;  ///< sentences, each with the file and the remedy
  std::size_t files = 0, entries = 0;
};

/// Checks every config below `tree` and the tables made from them. `root` holds the sources.
/// Configs of the host are self-tests: they are an error where `tree` is `root`.
findings check_tree(const std::string& tree, const std::string& root);

/// The limits that a config was tuned under.
device_limits limits_of(const frozen_device& from);

/// The command that tunes everything in `file` again.
std::string tune_command(const frozen_config& file);

}  // namespace capstone::tools
