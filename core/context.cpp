// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/context.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

#include "core/fingerprint.hpp"

#ifndef CAPSTONE_SOURCE_DIR
#define CAPSTONE_SOURCE_DIR "."
#endif
#ifndef CAPSTONE_CUDA_VERSION
#define CAPSTONE_CUDA_VERSION ""
#endif
#ifndef CAPSTONE_CUDA_FLAGS
#define CAPSTONE_CUDA_FLAGS ""
#endif

namespace capstone::tools {
namespace {

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

std::string utc(std::time_t when, const char* format) {
  std::tm parts = {};
  gmtime_r(&when, &parts);
  std::array<char, 64> text = {};
  std::strftime(text.data(), text.size(), format, &parts);
  return text.data();
}

}  // namespace

std::string git_output(const std::string& root, const std::string& arguments) {
  std::string quoted = "'";
  for (const char c : root) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string command = "git -C " + quoted + "' " + arguments + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> block;
  while (const std::size_t n = std::fread(block.data(), 1, block.size(), pipe))
    text.append(block.data(), n);
  if (pclose(pipe) != 0) return "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string source_root() { return environment("CAPSTONE_ROOT", CAPSTONE_SOURCE_DIR); }

run_context this_run() {
  run_context run;
  const std::time_t now = std::time(nullptr);
  std::array<char, 16> hex = {};
  std::snprintf(hex.data(), hex.size(), "%08x", std::random_device{}());
  run.session = utc(now, "%Y%m%dT%H%M%SZ") + "-" + hex.data();
  run.date = utc(now, "%Y-%m-%dT%H:%M:%SZ");
  run.commit = environment("CAPSTONE_COMMIT", "");
  if (run.commit.empty()) {
    // A copy of the tree inside some other checkout is not that checkout's commit.
    if (git_output(source_root(), "rev-parse --show-prefix").empty())
      run.commit = git_output(source_root(), "rev-parse --verify HEAD");
    run.dirty = !run.commit.empty() &&
                !git_output(source_root(), "status --porcelain -- . ':(exclude)evidence'").empty();
  } else if (const std::string mark = "-dirty"; run.commit.ends_with(mark)) {
    run.commit.resize(run.commit.size() - mark.size());
    run.dirty = true;
  }
  run.binary = "sha256:" + file_sha256("/proc/self/exe");
  run.toolkit = CAPSTONE_CUDA_VERSION;
  run.flags = CAPSTONE_CUDA_FLAGS;
  return run;
}

}  // namespace capstone::tools
