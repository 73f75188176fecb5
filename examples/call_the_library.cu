// nvcc -std=c++20 -arch=native -I include examples/call_the_library.cu -o call_the_library
//
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
//
// Adds a residual and normalises, as the block of a transformer does, and checks one row by hand.
// Without a GPU (build with -arch=sm_90 then) it runs the same kernel on the host team.

#include <capstone/fused.cuh>

#include <cmath>
#include <cstdio>
#include <vector>

using capstone::bf16;

int main() {
  constexpr int rows = 64, cols = 4096;
  std::vector<bf16> x(rows * cols), residual(rows * cols), weight(cols), y(rows * cols), sum(rows * cols);
  for (int i = 0; i < rows * cols; ++i) {
    x[i] = __float2bfloat16_rn(std::sin(0.37f * float(i)));
    residual[i] = __float2bfloat16_rn(std::cos(0.11f * float(i)));
  }
  for (int c = 0; c < cols; ++c) weight[c] = __float2bfloat16_rn(1.0f + 0.001f * float(c % 100));

  int devices = 0;
  if (cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0) {
    const std::size_t bytes = rows * cols * sizeof(bf16);
    bf16 *dx, *dr, *dw, *dy, *ds;
    for (bf16** p : {&dx, &dr, &dw, &dy, &ds})
      if (cudaMalloc(p, bytes) != cudaSuccess) return 1;
    cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dr, residual.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(dw, weight.data(), cols * sizeof(bf16), cudaMemcpyHostToDevice);

    const capstone::status status = capstone::rms_norm<bf16>(
        {.x = dx, .residual = dr, .weight = dw, .y = dy, .residual_out = ds, .rows = rows, .cols = cols, .eps = 1e-6f},
        nullptr);
    if (!status) return std::fprintf(stderr, "rms_norm: %s\n", status.sentence().c_str()), 1;
    cudaMemcpy(y.data(), dy, bytes, cudaMemcpyDeviceToHost);
    cudaMemcpy(sum.data(), ds, bytes, cudaMemcpyDeviceToHost);
    for (bf16* p : {dx, dr, dw, dy, ds}) cudaFree(p);
  } else {
    std::puts("no GPU: on the host team");
    const capstone::status status = capstone::rms_norm_on_host<bf16>(
        {.x = x.data(), .residual = residual.data(), .weight = weight.data(), .y = y.data(),
         .residual_out = sum.data(), .rows = rows, .cols = cols, .eps = 1e-6f});
    if (!status) return std::fprintf(stderr, "rms_norm: %s\n", status.sentence().c_str()), 1;
  }

  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    const auto h = [&](int c) {
      return double(__bfloat162float(x[row * cols + c])) + double(__bfloat162float(residual[row * cols + c]));
    };
    double squares = 0;
    for (int c = 0; c < cols; ++c) squares += h(c) * h(c);
    const double rstd = 1 / std::sqrt(squares / cols + 1e-6);
    for (int c = 0; c < cols; ++c) {
      const double want = h(c) * rstd * double(__bfloat162float(weight[c]));
      worst = std::fmax(worst, std::fabs(double(__bfloat162float(y[row * cols + c])) - want) / (std::fabs(want) + 1e-6));
    }
  }
  std::printf("worst relative error %.5f, half an ulp of bf16 is %.5f\n", worst, 1.0 / 256);
  return worst <= 1.01 / 256 ? 0 : 1;
}
