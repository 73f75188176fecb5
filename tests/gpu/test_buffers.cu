// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// The buffers on a GPU hold what they hold on the host, and find the same damage.
#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include "core/buffers.hpp"
#include "tests/skip.hpp"

using namespace capstone::tools;

namespace {

std::vector<buffer_desc> sample(const std::string& fill) {
  return {{"x", role::in, dtype::f32, 33, 1000, 1003, 1, -1, fill},
          {"h", role::in, dtype::f16, 33, 1000, 1000, 0, -1, fill},
          {"b", role::in, dtype::bf16, 33, 1000, 1001, 2, -1, fill},
          {"y", role::out, dtype::bf16, 33, 1000, 1008, 0, -1, fill}};
}

void flip(void* address) {
  unsigned char byte = 0;
  check_cuda(cudaMemcpy(&byte, address, 1, cudaMemcpyDeviceToHost), "cudaMemcpy");
  byte ^= 0x40;
  check_cuda(cudaMemcpy(address, &byte, 1, cudaMemcpyHostToDevice), "cudaMemcpy");
}

}  // namespace

TEST_CASE("buffers: bitwise the same data on host and GPU") {
  if (const auto why = why_no_gpu(); !why.empty()) CAPSTONE_SKIP(why);
  for (const char* fill : {"normal", "large", "tiny", "constant", "zero", "uniform"}) {
    const buffer_set there(open_device(""), sample(fill), 7);
    const buffer_set here(open_device("host"), sample(fill), 7);
    for (int i = 0; i < 4; ++i) CHECK(there.download(i) == here.download(i));
    CHECK(there.output_hash() == here.output_hash());
  }
}

TEST_CASE("buffers: damage and unwritten elements on a GPU are found as on the host") {
  if (const auto why = why_no_gpu(); !why.empty()) CAPSTONE_SKIP(why);
  buffer_set set(open_device(""), sample("normal"), 7);
  CHECK(set.find_damage() == "");
  CHECK(set.find_unwritten() == "output y: row 0, col 0 was not written");
  auto* y = static_cast<char*>(set.data()[3]);
  for (const auto& [byte, sentence] :
       {std::pair<std::ptrdiff_t, const char*>{-2, "output y: 2 bytes before its first element"},
        {(5 * 1008 + 1000) * 2, "output y: byte 0 behind the end of row 5"},
        {(32 * 1008 + 1000) * 2, "output y: byte 0 behind the end of row 32 (the last)"}}) {
    flip(y + byte);
    CHECK(set.find_damage() == std::string(sentence) + " was overwritten");
    set.reset();
  }
  flip(static_cast<char*>(set.data()[0]) + (3 * 1003 + 17) * 4);
  CHECK(set.find_damage() == "input x: row 3, col 17 was overwritten");
}
