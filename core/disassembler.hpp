// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// NVIDIA's disassemblers, which read machine code and need no GPU.
#pragma once

#include <string>
#include <vector>

namespace capstone::tools {

/// The path of the first of `names` (nvdisasm, cuobjdump) found on the PATH, in the toolkit or among
/// the build folder's Python packages, or "".
std::string find_disassembler(const std::vector<std::string>& names);

/// What a shell command prints on standard output.
std::string output_of(const std::string& command);

}  // namespace capstone::tools
