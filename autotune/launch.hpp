// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Compiled candidates made runnable, on a GPU through the runtime's library calls (the driver's
/// own library is never linked), on the host through dlopen.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>
#include <string>

#include "autotune/compile.hpp"
#include "core/device.hpp"

namespace capstone::tools {

/// The launch itself was refused; the device is unharmed.
struct launch_refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The device reported an error after the launch: on a GPU this process can do no more with it.
struct device_crashed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How the gate and the search run a plan. Tests put functions of their own here.
struct executor {
  std::function<void(const launch_plan&, void* stream)> launch;  ///< may throw launch_refused
  std::function<void()> wait = [] {};                            ///< may throw device_crashed
};

/// Loads each kernel type once, on first use; unloads with its owner.
class loaded_kernels {
 public:
  loaded_kernels(const device& where, const std::map<std::string, image>& images);
  ~loaded_kernels();
  loaded_kernels(const loaded_kernels&) = delete;
  loaded_kernels& operator=(const loaded_kernels&) = delete;

  /// Valid while this object and the images live.
  executor run();

  /// What launches need of a plan's kernel, looked up once, outside any timed region.
  struct handle {
    void* library = nullptr;
    void* function = nullptr;
  };
  const handle& find(const launch_plan& plan);

 private:
  const device& where_;
  const std::map<std::string, image>& images_;
  std::map<std::string, handle> loaded_;
};

/// Enqueues `plan` with a handle that `find` gave.
/// CUDA's words where this process's context can be used no more, else "".
std::string why_crashed();

void launch(const device& where, const loaded_kernels::handle& kernel, const launch_plan& plan,
            void* stream);

}  // namespace capstone::tools
