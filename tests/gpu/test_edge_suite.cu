// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The shipped call and the host team over the edge suite, on the same data.

#include "core/buffers.hpp"
#include "tests/gpu/device_buffer.hpp"

using namespace capstone::tools;

TEST_CASE("rms_norm+residual: the residual sum has the same bits on host and device over the edge suite") {
  const device gpu = open_device(""), host = open_device("host");
  for (const char* dtype : {"bf16", "f16", "f32", "bf16-f32-bf16"}) {
    const auto [of, kernel] = find_kernel("rms_norm+residual", dtype);
    for (const problem& what : of->suite("edge")) {
      CAPTURE(dtype);
      CAPTURE(what.shape[0]);
      CAPTURE(what.shape[1]);
      const auto descs = kernel->buffers(what);
      const int sum = int(descs.size()) - 1;
      REQUIRE(descs[std::size_t(sum)].name == "residual_out");
      buffer_set there(gpu, descs, 3), here(host, descs, 3);
      there.reset(), here.reset();
      REQUIRE(kernel->call(what, there.data(), nullptr) == "");
      CHECK_CUDA(cudaDeviceSynchronize());
      REQUIRE(kernel->call_host(what, here.data()) == "");
      CHECK((there.download(sum) == here.download(sum)));
    }
  }
}
