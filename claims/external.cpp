// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/external.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace capstone::claims {
namespace fs = std::filesystem;

std::string last_lines(const std::string& text, std::size_t most) {
  constexpr std::size_t widest = 200;
  std::vector<std::string> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line.substr(0, widest));
  std::string tail;
  for (std::size_t i = lines.size() - std::min(most, lines.size()); i < lines.size(); ++i) tail += (tail.empty() ? "" : "\n") + lines[i];
  return tail;
}

std::string find_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path file = fs::path(folder) / name; access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file)) return file.string();
  return "";
}

scratch_folder::scratch_folder() : path_((fs::temp_directory_path() / "capstone-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("the folder " + path_ + " cannot be made");
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace capstone::claims
