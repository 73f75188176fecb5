// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What the driver's management library says about the GPU while it is timed. It only reads:
/// nothing here changes a clock or a limit.
#pragma once

#include "core/device.hpp"

namespace capstone::tools {

/// NVML for one GPU. Where the library or the GPU is not there, `available` says so and nothing
/// else throws: clocks and power are context of a measurement, not part of it.
class nvml {
 public:
  explicit nvml(const device& where);
  ~nvml();
  nvml(const nvml&) = delete;
  nvml& operator=(const nvml&) = delete;

  bool available() const { return gpu_ != nullptr; }
  int sm_mhz() const;    ///< the SM clock now; 0 where it is not known
  double watts() const;  ///< the board's power now; 0 where it is not known

  /// Compute processes on this GPU beside this one; -1 where it is not known. This process has a
  /// context by the time it asks. In a container the ids that NVML reports need not be ours, so
  /// one process is always taken to be this one.
  int other_processes() const;

 private:
  void* library_ = nullptr;
  void* gpu_ = nullptr;
};

}  // namespace capstone::tools
