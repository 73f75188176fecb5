// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What Nsight Compute and Nsight Systems are run with.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace capstone::claims {

/// The last lines of a text that say something, each on a line of its own, at most `most`.
std::string last_lines(const std::string& text, std::size_t most);

/// The program's path, or "".
std::string find_on_path(const std::string& name);

/// An empty folder for a program's temporary files, which goes with this object.
class scratch_folder {
 public:
  scratch_folder();  ///< throws std::runtime_error
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  std::filesystem::path path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace capstone::claims
