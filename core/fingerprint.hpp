// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace capstone::tools {

/// SHA-256 of the bytes, as 64 lowercase hex digits.
std::string sha256_hex(std::string_view bytes);

/// SHA-256 of a file's bytes, as 64 lowercase hex digits. Throws std::runtime_error naming it.
std::string file_sha256(const std::string& path);

/// A C++ source without what cannot change its meaning: comments are gone, runs of white space are
/// one space (none beside brackets, commas and semicolons), empty lines are gone. Literals stay as
/// they are, and a preprocessor directive keeps a line of its own.
std::string normalise_source(std::string_view source);

/// "sha256:<hex>" over a kernel's header and all that it includes from `root`/include, normalised.
/// The generated tables under include/capstone/tuned/ are left out: they are made from the choice
/// that this fingerprint guards. `header` is a path, absolute or relative to `root`/include or to
/// `root`. A user's own kernel file may lie elsewhere: it counts by its file name, and so do the
/// files that it includes from its own folder. Throws std::runtime_error naming the file.
std::string source_fingerprint(const std::string& root, const std::string& header);

}  // namespace capstone::tools
