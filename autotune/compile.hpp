// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Candidates from source to machine code, without nvcc: NVRTC for a GPU (none need be present),
/// the C++ compiler that built the tool for the host.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "autotune/subprocess.hpp"
#include "core/device.hpp"

namespace capstone::tools {

/// A folder that goes away with its owner; what killed owners left goes with the next one.
class scratch_folder {
 public:
  explicit scratch_folder(const std::string& below);
  ~scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int lock_ = -1;
};

struct compile_settings {
  std::string root, header;
  int cc = 0;           ///< 90 for sm_90; 0: the host
  std::string scratch;  ///< a folder for what is compiled
  /// A program that runs `serve_compiler` when called as `PROGRAM compiler CC ROOT HEADER SCRATCH`.
  /// Empty: compile in this process, where NVRTC lets little run in parallel.
  std::string program = {};
  std::chrono::milliseconds timeout = std::chrono::seconds(120);  ///< of one kernel type
};

/// One kernel type, compiled. Compiled with `error` not empty: the compiler's words.
struct image {
  std::string kernel_type, error;
  bool timed_out = false;
  int registers = -1, spill_bytes = 0;
  std::string file;   ///< GPU: the cubin; host: the shared object
  std::string entry;  ///< GPU: mangled name
};

image compile(const compile_settings& settings, const std::string& kernel_type);

/// The other end of `program`.
int serve_compiler(const std::vector<std::string>& arguments);

/// Compiles in the given order over `jobs` threads, each with a process of its own; what has not begun
/// at `end` is left out. `done` is called after each, from one thread at a time.
std::map<std::string, image> compile_all(const compile_settings& settings,
                                         const std::vector<std::string>& kernel_types, int jobs,
                                         deadline end, const std::function<void()>& done);

/// The flags of a GPU compilation, for the records.
std::vector<std::string> compile_flags(int cc);

/// Reads registers and spills of the one kernel in ptxas's words.
void read_ptxas_log(const std::string& log, image& into);

}  // namespace capstone::tools
