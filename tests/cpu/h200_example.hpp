// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Made-up ceilings that are like an H200's, and what the model is told of a kernel that normalises
/// rows, so that tests of predictions need no GPU and no disassembler.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "claims/model.hpp"

namespace capstone::tests {

inline constexpr std::int64_t h200_l2_bytes = 62914560;

/// Floors on 1.8 us + bytes / 4200 GB/s, give or take 1 %; 25 MB of what is written stay in L2.
inline claims::ceilings h200_ceilings() {
  using claims::recorded;
  claims::ceilings c;
  c.run = {"20260101T000000Z-00000001", "2026-01-01T00:00:00Z", "0123", false, "sha256:00", "13.0.88", "-O3"};
  c.device = {"h200", "NVIDIA H200", "9.0", 132, h200_l2_bytes, "580.1"};
  c.sm_mhz = {1965, 1980, 1980};
  c.launch_stream_us = 4.3;
  c.launch_graph_node_us = 0.68;
  c.empty_kernel_us = 0.68;
  c.chain_load_us = 0.35;
  c.chain_reduce_us = 0.19;
  claims::counter_ceilings k;
  k.ncu = "2025.3.1.0 (build 36398880)";
  k.residue_bytes = {25e6, 24e6, 26e6};
  k.noise_dram_read = 2816;
  k.tensor_pct = 98.8;
  for (const std::int64_t streams : {1, 2}) {
    std::vector<claims::floor_point> points;
    for (std::int64_t bytes = 16384, i = 0; bytes <= std::int64_t{1} << 30; bytes *= 4, ++i) {
      const double us = (1.8 + double(bytes) / 4.2e6) * (i % 2 == 0 ? 1.01 : 0.99);
      points.push_back({streams, streams, bytes, recorded(us), recorded(us * 0.99), recorded(us * 1.01), "u4 t256 cs"});
      const double half = double(bytes) / 2, to_memory = std::max(0.0, half - 25e6);
      const double profiled_us = recorded(2.2 + double(bytes) / 4.35e6);
      k.copies.push_back({streams, streams, bytes / 2, bytes / 2, "u4 t256 cs", half + 4096, 256, to_memory,
                          to_memory > 0 ? 200e3 : 0, recorded(100 * (half + to_memory) / (profiled_us * 4.8e6)),
                          recorded(26 * (1 - 2.2 / profiled_us)), profiled_us});
    }
    claims::floor_fit fit = claims::fit_floor(points);
    for (double* number : {&fit.fixed_us, &fit.gb_per_s, &fit.worst_residual}) *number = recorded(*number);
    for (double& residual : fit.residuals) residual = recorded(residual);
    c.floors.insert(c.floors.end(), points.begin(), points.end());
    c.fits.push_back(fit);
  }
  c.l2_points = {{1 << 20, 9100}, {30 << 20, 9000}, {50 << 20, 8200}, {60 << 20, 7000}};
  c.l2_gb_per_s = 9000;
  c.l2_edge_bytes = 50 << 20;
  c.fma_tflops = {65.4, 65.3, 65.5};
  c.special_gops = {4150, 4140, 4160};
  c.tensor_bf16_tflops = {637, 634, 640};
  c.counters = k;
  return c;
}

/// A fused kernel, a block of 256 threads a row, in bf16 with a weight of one row. The chain that it
/// replaces reads the rows twice. `measured` must outlive what is returned.
inline claims::model_inputs row_kernel_inputs(const claims::ceilings& measured, std::int64_t rows, std::int64_t cols) {
  const std::int64_t rows_bytes = rows * cols * 2, weight = cols * 2;
  claims::model_inputs in{measured, {}, {}, {}, {}, {}, 0, false};
  in.traffic = {rows_bytes + weight, rows_bytes, 1, 1, weight};
  in.work.flops = 4.0 * double(rows * cols);
  in.work.special = 256.0 * double(rows);
  in.launch.symbol = "_Z5entryv";
  in.launch.grid = unsigned(rows);
  in.launch.block = 256;
  in.launch.single_pass = true;
  in.code.symbol = in.launch.symbol;
  in.code.registers = 40;
  in.code.static_smem = 264;
  in.code.straight = 280;
  in.rivals = {{"unfused", {2 * rows_bytes + weight + 8 * rows, rows_bytes + 4 * rows, 1, 1, weight}}};
  in.rows = rows;
  return in;
}

}  // namespace capstone::tests
