// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/launch.hpp"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace capstone::tools {
namespace {

std::string words(cudaError_t error) {
  return std::string(cudaGetErrorName(error)) + ", " + cudaGetErrorString(error);
}

// From these a context does not come back; anything else is the launch's own fault.
bool is_sticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

void check_launch(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  if (is_sticky(error)) throw device_crashed(std::string(what) + ": " + words(error));
  throw launch_refused(std::string(what) + ": " + words(error));
}

loaded_kernels::handle load_on_gpu(const image& from) {
  cudaLibrary_t library{};
  check_launch(cudaLibraryLoadFromFile(&library, from.file.c_str(), nullptr, nullptr, 0, nullptr,
                                       nullptr, 0),
               "cudaLibraryLoadFromFile");
  cudaKernel_t kernel{};
  const auto error = cudaLibraryGetKernel(&kernel, library, from.entry.c_str());
  if (error != cudaSuccess) cudaLibraryUnload(library);
  check_launch(error, "cudaLibraryGetKernel");
  return {library, kernel};
}

loaded_kernels::handle load_on_host(const image& from) {
  loaded_kernels::handle made;
  made.library = dlopen(from.file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (made.library != nullptr) made.function = dlsym(made.library, "capstone_run");
  if (made.function == nullptr) throw launch_refused(std::string("dlopen: ") + dlerror());
  return made;
}

}  // namespace

loaded_kernels::loaded_kernels(const device& where, const std::map<std::string, image>& images)
    : where_(where), images_(images) {}

loaded_kernels::~loaded_kernels() {
  for (const auto& [type, kernel] : loaded_) {
    if (where_.is_host()) {
      dlclose(kernel.library);
    } else {
      cudaLibraryUnload(static_cast<cudaLibrary_t>(kernel.library));
    }
  }
}

const loaded_kernels::handle& loaded_kernels::find(const launch_plan& plan) {
  const auto known = loaded_.find(plan.kernel_type);
  if (known != loaded_.end()) return known->second;
  const auto found = images_.find(plan.kernel_type);
  if (found == images_.end()) throw launch_refused("not compiled: " + plan.kernel_type);
  if (!found->second.error.empty()) throw launch_refused(found->second.error);
  const auto kernel = where_.is_host() ? load_on_host(found->second) : load_on_gpu(found->second);
  if (!where_.is_host()) {
    const auto allow = [&](cudaFuncAttribute attribute, int value, const char* what) {
      check_launch(cudaFuncSetAttribute(kernel.function, attribute, value), what);
    };
    if (plan.smem_bytes > 48 * 1024) {
      allow(cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(plan.smem_bytes),
            "dynamic shared memory");
    }
    if (plan.cluster > 8) allow(cudaFuncAttributeNonPortableClusterSizeAllowed, 1, "cluster size");
  }
  return loaded_.emplace(plan.kernel_type, kernel).first->second;
}

executor loaded_kernels::run() {
  executor made;
  made.launch = [this](const launch_plan& plan, void* stream) {
    capstone::tools::launch(where_, find(plan), plan, stream);
  };
  if (!where_.is_host()) {
    made.wait = [] {
      const auto error = cudaDeviceSynchronize();
      if (error != cudaSuccess) throw device_crashed(words(error));
    };
  }
  return made;
}

std::string why_crashed() {
  const auto error = cudaDeviceSynchronize();
  return error == cudaSuccess ? "" : words(error);
}

void launch(const device& where, const loaded_kernels::handle& kernel, const launch_plan& plan,
            void* stream) {
  if (where.is_host()) {
    reinterpret_cast<void (*)(const void*, unsigned)>(kernel.function)(plan.params.data(),
                                                                       plan.grid[0]);
    return;
  }
  cudaLaunchConfig_t how{};
  how.gridDim = dim3(plan.grid[0], plan.grid[1], plan.grid[2]);
  how.blockDim = dim3(plan.block);
  how.dynamicSmemBytes = plan.smem_bytes;
  how.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute cluster{};
  if (plan.cluster > 1) {
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = plan.cluster;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    how.attrs = &cluster;
    how.numAttrs = 1;
  }
  void* arguments[] = {const_cast<std::byte*>(plan.params.data())};
  check_launch(cudaLaunchKernelExC(&how, kernel.function, arguments), "the launch");
}

}  // namespace capstone::tools
