// expect: no instance of function template "capstone::rms_norm" matches
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

// A braced problem deduces nothing: the dtypes are named, rms_norm<bf16>({...}, stream).
auto call(const capstone::bf16* x, capstone::bf16* y, cudaStream_t stream) {
  return capstone::rms_norm({.x = x, .y = y, .rows = 1, .cols = 64}, stream);
}
