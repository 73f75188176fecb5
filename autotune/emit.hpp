// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The constexpr table that ships, made from the config files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/records.hpp"
#include "core/spec.hpp"

namespace capstone::tools {

/// A config file and the path it was read from.
using config_file = std::pair<std::string, frozen_config>;

/// Every <tree>/configs/<device>/*.yaml, in the order of paths.
std::vector<std::string> config_paths(const std::string& tree);

/// Those of one op, read. Throws record_error for a file that does not parse.
std::vector<config_file> read_configs(const std::string& tree, const op& of);

/// Whether a config's kernel is `of` in one of its variants.
bool belongs_to(const op& of, const std::string& kernel);

/// The header's text. `table` "": capstone::tuned::<op>, else a struct of that name of the user's,
/// in the global namespace. Throws std::invalid_argument naming the file whose values do not fit.
std::string emit_table(const op& of, const std::vector<config_file>& configs,
                       const std::string& table);

/// Where emit_table's text belongs below `tree`.
std::string table_path(const std::string& tree, const op& of, const std::string& table);

}  // namespace capstone::tools
