// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// The second of two files that both include the library: they must link, and run, together.
#include <capstone/fused.cuh>

bool second_file_normalises(const capstone::bf16* x, const capstone::bf16* weight,
                            capstone::bf16* y, cudaStream_t stream) {
  auto status = capstone::rms_norm<capstone::bf16>(
      {.x = x, .weight = weight, .y = y, .rows = 2, .cols = 64, .eps = 1e-6f}, stream);
  return bool(status) && cudaStreamSynchronize(stream) == cudaSuccess;
}
