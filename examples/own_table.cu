// nvcc -std=c++20 -arch=native -I include examples/own_table.cu -o own_table
//
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
//
// A table of one's own, for a shape or a GPU that the library has no frozen config for. The struct
// is what `autotune --shape 4096x2560 --table my_table --out .` writes to my_table.cuh, which a
// program would include; it is spelled out here so that this is one file.

#include <capstone/fused.cuh>

#include <cstdio>

using namespace capstone;

struct my_table {
  static constexpr int count = 1;
  static constexpr detail::table_row<row_config> rows[] = {
      {.device = {.cc = 90, .sms = 132, .l2_bytes = 62914560}, .variant = "", .dtype = "bf16",
       .cols_min = 2560, .cols_max = 2560, .rows_min = 1, .rows_max = 0, .rows_tuned = 4096,
       .config = {.reduction = {.lanes = 160, .elements = 8, .cluster = 1},
                  .schedule = {.tile_rows = 1, .load_bytes = 16, .hold = row_hold::packed,
                               .weights = row_weights::early}}},
  };
};
using mine = rms_norm_options<rounding::none, my_table>;

int main() {
  constexpr long long rows = 8, cols = 2560;
  alignas(16) static bf16 x[rows * cols], y[rows * cols], z[rows * cols];
  for (int i = 0; i < rows * cols; ++i) x[i] = __float2bfloat16_rn(float(i % 17) - 8.0f);

  // Which entry would a GPU use? On an H200 the table's, elsewhere the default.
  const rms_norm_problem<bf16> p{.x = x, .y = y, .rows = rows, .cols = cols};
  const config_choice h200 = rms_norm_query<bf16, bf16, bf16, mine>(p, {90, 132, 62914560});
  const config_choice shipped = rms_norm_query<bf16>(p, {90, 132, 62914560});
  std::printf("own table: %d lanes, shipped: %d lanes\n", h200.config.reduction.lanes, shipped.config.reduction.lanes);
  if (h200.match != match_kind::range || h200.config.reduction.lanes != 160) return 1;

  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no GPU: only the look-up ran");
    return 0;
  }
  bf16 *dx, *dy;
  if (cudaMalloc(&dx, sizeof x) != cudaSuccess || cudaMalloc(&dy, sizeof y) != cudaSuccess) return 1;
  cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
  const status s = rms_norm<bf16, bf16, bf16, mine>({.x = dx, .y = dy, .rows = rows, .cols = cols}, nullptr);
  if (!s) return std::fprintf(stderr, "rms_norm: %s\n", s.sentence().c_str()), 1;
  cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost);
  cudaFree(dx), cudaFree(dy);
  if (!rms_norm_on_host<bf16>({.x = x, .y = z, .rows = rows, .cols = cols})) return 1;
  for (int i = 0; i < rows * cols; ++i) {  // another reduction: equal up to one rounding of bf16
    const float a = __bfloat162float(y[i]), b = __bfloat162float(z[i]);
    if ((a > b ? a - b : b - a) > 0.0079f * (b < 0 ? -b : b)) return std::printf("differs at %d\n", i), 1;
  }
  std::puts("as expected");
  return 0;
}
