// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `autotune restamp`: a change of the source that no frozen kernel's machine code shows does not
/// call for tuning again. Needs no GPU.
#pragma once

#include <string>

namespace capstone::tools {

/// For every stale config below `tree`: compiles its kernels from `root` and from `from`, the tree
/// it was tuned with (its fingerprint must say so), and where all machine code is the same byte for
/// byte, writes the fingerprint of `root` into the file. Returns the exit code: 2 if any kernel
/// differs.
int restamp(const std::string& tree, const std::string& root, const std::string& from, int jobs);

}  // namespace capstone::tools
