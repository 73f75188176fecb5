// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// What a user writes, in the first of two files that both include the library.
#include <capstone/fused.cuh>

#include <cmath>
#include <cstdio>
#include <vector>

bool second_file_normalises(const capstone::bf16* x, const capstone::bf16* weight,
                            capstone::bf16* y, cudaStream_t stream);

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("built; not run: no GPU\n");
    return 0;
  }
  constexpr int rows = 2, cols = 64;
  const std::vector<capstone::bf16> ones(rows * cols, capstone::bf16(1.0f));
  const size_t bytes = ones.size() * sizeof(capstone::bf16);
  capstone::bf16 *x, *w, *y;
  for (auto pointer : {&x, &w, &y}) cudaMalloc(pointer, bytes);
  cudaMemcpy(x, ones.data(), bytes, cudaMemcpyHostToDevice);
  cudaMemcpy(w, ones.data(), bytes, cudaMemcpyHostToDevice);
  cudaStream_t stream;
  cudaStreamCreate(&stream);

  auto status = capstone::rms_norm<capstone::bf16>(
      {.x = x, .weight = w, .y = y, .rows = rows, .cols = cols, .eps = 1e-6f}, stream);

  std::vector<capstone::bf16> result(ones.size());
  cudaMemcpyAsync(result.data(), y, bytes, cudaMemcpyDeviceToHost, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess || !status) return 1;
  for (capstone::bf16 value : result) {
    if (std::fabs(static_cast<float>(value) - 1.0f) > 1e-2f) return 2;
  }
  if (!second_file_normalises(x, w, y, stream)) return 3;
  std::printf("built and run\n");
  return 0;
}
