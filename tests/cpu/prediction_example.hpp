// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// A made-up prediction, with its numbers as a record keeps them.
#pragma once

#include <string>

#include "claims/prediction.hpp"

namespace capstone::tests {

inline std::string made_up_digest(char digit) { return "sha256:" + std::string(64, digit); }

/// 64 MB in, 64 MB out.
inline claims::prediction made_up_prediction() {
  claims::prediction p;
  p.date = "2026-01-02T03:04:05Z";
  p.commit = "abc";
  p.kernel = "fake";
  p.dtype = "bf16";
  p.what = {"rows=64,cols=96", ""};
  p.device = {"h200", "NVIDIA H200", "9.0", 132, 62914560, "580.1"};
  p.ceilings = made_up_digest('c');
  p.source = made_up_digest('5');
  p.config = {{"lanes", "32"}, {"hold", "packed"}};
  p.model = "full";
  p.prior_profiles = 2;
  p.launch = {"_Z5entryv", 64, 256, 1, 40, 1024, 0.4848};
  p.l2 = "cold";
  p.terms = {{"dram", "134217728 B / 4300 GB/s", 31.2134}, {"issue", "1000 \"warps\"", 2.5}};
  p.binding = "dram";
  p.second = "issue";
  p.margin = 12.4854;
  p.expected_us = 33.1;
  p.low_us = 31.9;
  p.high_us = 34.3;
  p.physics_us = 28.1;
  p.counters = {{"dram__bytes.sum", "byte", 134217728, 100000000, 135000000, "64 MB in, 64 MB out"},
                {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", 20.5, 12.1, 29.3, ""},
                {"l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "byte", 0, 0, 0, "no spills"}};
  p.rivals = {{"unfused", "two kernels", {{"dram__bytes.sum", 268435456}}, {"dram__bytes.sum"}},
              {"nobody", "would fit", {{"dram__bytes.sum", 110000000}}, {}}};
  p.launch_dominates_below_rows = 24;
  p.launch_dominates_below_bytes = 9000000;
  return p;
}

}  // namespace capstone::tests
