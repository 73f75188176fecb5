// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Measured ceilings of a GPU, evidence/<device>/ceilings.yaml: what predictions rest on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "claims/record.hpp"

namespace capstone::claims {

inline constexpr const char* ceilings_schema = "capstone-ceilings/1";

/// The fastest streaming kernel for `reads` streams in and `writes` out, `bytes` in all, cold.
struct floor_point {
  std::int64_t reads = 0, writes = 0, bytes = 0;
  double us = 0, low = 0, high = 0;
  std::string variant;
};

/// time = fixed_us + bytes / (gb_per_s * 1000), bytes per microsecond
struct floor_fit {
  std::int64_t reads = 0, writes = 0;
  double fixed_us = 0, gb_per_s = 0;
  double worst_residual = 0;        ///< relative
  std::vector<double> residuals;    ///< relative, in the order of this mix's floors
};

struct l2_point {
  std::int64_t bytes = 0;
  double gb_per_s = 0;
};

/// A plain streaming kernel under the profiler; medians over its launches, spread = max - min.
struct counted_copy {
  std::int64_t reads = 0, writes = 0, read_bytes = 0, written_bytes = 0;
  std::string variant;
  double dram_read = 0, dram_read_spread = 0, dram_write = 0, dram_write_spread = 0;
  double dram_pct = 0, sm_pct = 0, duration_us = 0;
};

struct counter_ceilings {
  std::string ncu;
  std::vector<counted_copy> copies;
  ratio_band residue_bytes;  ///< written but still in L2 when the kernel ends
  double noise_dram_read = 0, noise_dram_write = 0;  ///< bytes; largest of an empty kernel's launches
  double noise_l2_read_sectors = 0, noise_l2_write_sectors = 0;
  double tensor_pct = 0;  ///< what the tensor pipe's counter says at the rate tensor_bf16_tflops
};

struct ceilings {
  run_context run;
  record_device device;
  std::vector<std::int64_t> sm_mhz;  ///< min, median, max
  double launch_stream_us = 0, launch_graph_node_us = 0, empty_kernel_us = 0;
  double chain_load_us = 0, chain_reduce_us = 0;  ///< latency of a load from DRAM; of a block's reduction
  std::vector<floor_point> floors;
  std::vector<floor_fit> fits;
  std::int64_t l2_edge_bytes = 0;
  double l2_gb_per_s = 0;
  std::vector<l2_point> l2_points;
  ratio_band fma_tflops, special_gops, tensor_bf16_tflops;
  std::optional<counter_ceilings> counters;
  std::string why_no_counters;
};

std::string write_ceilings(const ceilings& c);
ceilings read_ceilings(const std::string& path);  ///< strict; throws record_error

/// Least squares in relative error of t = fixed + bytes / rate over the points of one mix.
floor_fit fit_floor(const std::vector<floor_point>& points);

/// Microseconds of the floor for `bytes` of this mix: linear between the calibrated sizes around
/// it, the fit beyond them. The nearest mix where this one was not calibrated.
double floor_us(const ceilings& c, std::int64_t reads, std::int64_t writes, std::int64_t bytes);

}  // namespace capstone::claims
