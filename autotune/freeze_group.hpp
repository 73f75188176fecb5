// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// From the run-offs of a column count to the files: configs/ and the table.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "autotune/group.hpp"
#include "core/records.hpp"

namespace capstone::tools {

/// What a journal of this kernel on this device begins with.
/// \param cols the column counts that the run is to tune: what is not begun leaves no line of its own
nlohmann::json journal_header(const op& of, const kernel_spec& kernel, const device& where, const tune_request& request,
                              const std::vector<std::int64_t>& cols);

/// The config file that such a journal leads to, without entries.
frozen_config file_of_header(const nlohmann::json& header);

/// Adds column counts to the config file below `out`, as one step under a lock, and makes the table again.
/// What the file holds for other column counts stays where source, axes and device are the same. The last
/// of `results` is printed, and of the others those whose choice has changed.
void freeze_groups(const std::string& out, const std::string& table, const op& of,
                   const std::vector<cols_result>& results, const frozen_config& file);

/// What the file below `out` holds for these columns, where source and axes are the same.
std::vector<incumbent> frozen_before(const std::string& out, const op& of, std::int64_t cols, const frozen_config& file);

/// Writes the table of `op_name` from the configs below `tree`; returns its path.
std::string write_table(const std::string& tree, const std::string& op_name, const std::string& table);

}  // namespace capstone::tools
