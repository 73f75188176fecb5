// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// Alone in its file: compiling doctest's implementation takes longer than most tests do.
#define DOCTEST_CONFIG_IMPLEMENT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <string>

#include "tests/skip.hpp"

namespace {

// Why no test can run here, or nothing.
std::string no_gpu() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return "";
  return std::string("no CUDA device (cudaGetDeviceCount: ") +
         (error == cudaSuccess ? "0 devices" : cudaGetErrorString(error)) + ")";
}

// ctest learns the names of the cases from a listing, on machines without a GPU too.
bool asks_for_a_listing(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]).rfind("--list", 0) == 0) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (!asks_for_a_listing(argc, argv)) {
    const std::string reason = no_gpu();
    if (!reason.empty()) return capstone::tests::report_skip(reason);
  }
  return capstone::tests::exit_code(doctest::Context(argc, argv).run());
}
