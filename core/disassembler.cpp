// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/disassembler.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace capstone::tools {
namespace fs = std::filesystem;

std::string find_disassembler(const std::vector<std::string>& names) {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  std::istringstream list(path == nullptr ? "" : path);
  for (std::string folder; std::getline(list, folder, ':');) folders.emplace_back(folder);
  std::istringstream includes(CAPSTONE_CUDA_INCLUDE_DIR);
  for (std::string folder; std::getline(includes, folder, ':');) {
    folders.push_back(fs::path(folder).parent_path() / "bin");
  }
  for (const std::string& name : names) {
    for (const auto& folder : folders) {
      if (const auto file = folder / name; access(file.c_str(), X_OK) == 0) return file.string();
    }
    // pip unpacks NVIDIA's tools somewhere below site-packages.
    const auto venv = fs::path(CAPSTONE_BINARY_DIR) / "venv";
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(venv, ignored)) {
      if (entry.path().filename() == name && access(entry.path().c_str(), X_OK) == 0) {
        return entry.path().string();
      }
    }
  }
  return "";
}

std::string output_of(const std::string& command) {
  std::string text;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    char block[4096];
    while (const auto count = std::fread(block, 1, sizeof block, pipe)) text.append(block, count);
    pclose(pipe);
  }
  return text;
}

}  // namespace capstone::tools
