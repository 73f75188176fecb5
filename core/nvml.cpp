// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/nvml.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace capstone::tools {
namespace {

// From NVML's documented interface. The header is not part of every toolkit install, and the
// library comes with the driver, so both are done without at build time.
constexpr int success = 0;
constexpr int insufficient_size = 7;
constexpr int clock_sm = 1;
using init_fn = int (*)();
using shutdown_fn = int (*)();
using handle_fn = int (*)(const char*, void**);
using clock_fn = int (*)(void*, int, unsigned*);
using power_fn = int (*)(void*, unsigned*);
using processes_fn = int (*)(void*, unsigned*, void*);

template <class Function>
Function symbol(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

nvml::nvml(const device& where) {
  if (where.is_host()) return;
  char bus_id[32] = {};
  if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, where.ordinal) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto init = symbol<init_fn>(library_, "nvmlInit_v2");
  const auto handle = symbol<handle_fn>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  if (init == nullptr || handle == nullptr || init() != success) return;
  if (handle(bus_id, &gpu_) != success) gpu_ = nullptr;
}

nvml::~nvml() {
  if (library_ == nullptr) return;
  if (const auto shutdown = symbol<shutdown_fn>(library_, "nvmlShutdown")) shutdown();
  dlclose(library_);
}

int nvml::sm_mhz() const {
  unsigned mhz = 0;
  const auto query = symbol<clock_fn>(library_, "nvmlDeviceGetClockInfo");
  if (!available() || query == nullptr || query(gpu_, clock_sm, &mhz) != success) return 0;
  return static_cast<int>(mhz);
}

double nvml::watts() const {
  unsigned milliwatts = 0;
  const auto query = symbol<power_fn>(library_, "nvmlDeviceGetPowerUsage");
  if (!available() || query == nullptr || query(gpu_, &milliwatts) != success) return 0;
  return milliwatts / 1000.0;
}

int nvml::other_processes() const {
  const auto query = symbol<processes_fn>(library_, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (!available() || query == nullptr) return -1;
  unsigned count = 0;  // asking with no room returns the count, and an error unless it is zero
  const int code = query(gpu_, &count, nullptr);
  if (code != success && code != insufficient_size) return -1;
  return count == 0 ? 0 : static_cast<int>(count) - 1;
}

}  // namespace capstone::tools
