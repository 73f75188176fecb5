// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The device a tool works on, a GPU or the host, and memory on it.
#pragma once

#include <cstddef>
#include <string>

#include "core/spec.hpp"

namespace capstone::tools {

/// A GPU as the records name it, or the host.
struct device {
  std::string id;    ///< short id: "h200", or e.g. "sm80-108-40mb" for a GPU without a name of ours; "host"
  std::string name;  ///< informative: "NVIDIA H200"
  std::string uuid, driver, cuda;  ///< of the driver and of the runtime linked, e.g. "13.0"
  device_limits limits;
  int ordinal = -1;  ///< -1: the host
  bool is_host() const { return ordinal < 0; }
};

/// Picks the device for `request`: "host", a GPU ordinal, or "" for GPU 0.
/// Throws std::runtime_error with one sentence that says what to do (`--device host`) without a GPU.
device open_device(const std::string& request);

/// Why no GPU can be used here, or "" if one can.
std::string why_no_gpu();

/// The id a GPU gets in paths and tables.
std::string device_id(const std::string& name, const device_limits& limits);

/// Owns bytes on the device or the host, 256-byte aligned. Throws std::bad_alloc naming nothing.
class memory {
 public:
  memory() = default;
  memory(const device& where, std::size_t bytes);
  memory(memory&& other) noexcept;
  memory& operator=(memory&& other) noexcept;
  ~memory();
  char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
  bool on_host_ = true;
};

/// Throws std::runtime_error with CUDA's name and sentence unless `code` is cudaSuccess (0).
void check_cuda(int code, const char* what);

}  // namespace capstone::tools
