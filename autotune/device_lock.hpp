// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace capstone::tools {

/// Somebody else tunes on the GPU; the text says who.
struct device_busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A GPU for one tuning run alone, by its UUID, for as long as this object lives; the kernel lets go of it
/// when the process dies. All users of a machine share the lock: it lies in /tmp, or in `folder`.
class device_lock {
 public:
  /// Throws device_busy.
  explicit device_lock(const std::string& uuid, const std::string& folder = "/tmp");
  ~device_lock();
  device_lock(const device_lock&) = delete;
  device_lock& operator=(const device_lock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace capstone::tools
