// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// What holds where the stream belongs to a GPU that is not the current one.

#include <capstone/fused.cuh>

#include "tests/gpu/device_buffer.hpp"
#include "tests/skip.hpp"

using namespace capstone;
using namespace capstone::tests;

TEST_CASE("rms_norm: the stream of a GPU that is not current: same bits, and the current one stays") {
  int count = 0;
  CHECK_CUDA(cudaGetDeviceCount(&count));
  if (count < 2) CAPSTONE_SKIP("one GPU, and this needs two");
  constexpr int rows = 65, cols = 4096;
  const auto x = normals<bf16>(rows * cols, 17);
  std::vector<bf16> y[2];
  for (int owner = 0; owner < 2; ++owner) {
    CHECK_CUDA(cudaSetDevice(owner));
    const device_buffer<bf16> dx(x);
    device_buffer<bf16> dy(rows * cols);
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaSetDevice(0));  // so for owner 1 the stream's GPU is not the current one
    const status s = rms_norm<bf16>({.x = dx.get(), .y = dy.get(), .rows = rows, .cols = cols}, stream);
    REQUIRE_MESSAGE(s.ok(), s.sentence().c_str());
    int current = -1;
    CHECK_CUDA(cudaGetDevice(&current));
    CHECK(current == 0);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaSetDevice(owner));
    y[owner] = dy.host();
    CHECK_CUDA(cudaStreamDestroy(stream));
  }
  CHECK_CUDA(cudaSetDevice(0));
  CHECK(same_bits(y[0], y[1]));
}
