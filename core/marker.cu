// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/marker.hpp"

#include <cuda_runtime.h>

#include "core/device.hpp"

extern "C" __global__ void capstone_profile_marker() {}  // its mangled name is marker_symbol

namespace capstone::tools {

void launch_marker(void* stream) {
  capstone_profile_marker<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>();
  check_cuda(cudaGetLastError(), "the marker before a profiled call");
}

}  // namespace capstone::tools
