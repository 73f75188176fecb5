// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/metrics.hpp"

namespace capstone::claims {
namespace {

std::vector<std::string> named_for(int cc, std::vector<std::string> metrics) {
  for (std::string& name : metrics) name = metric_alias(name, cc);
  return metrics;
}

}  // namespace

std::vector<std::string> core_metrics(int cc) {
  return named_for(cc, {
                           "gpu__time_duration.sum",
                           "dram__bytes.sum",
                           "dram__bytes_read.sum",
                           "dram__bytes_write.sum",
                           "dram__throughput.avg.pct_of_peak_sustained_elapsed",
                           // From the SMs alone: all of L2's sectors include traffic between its halves.
                           "lts__t_sectors_srcunit_tex_op_read.sum",
                           "lts__t_sectors_srcunit_tex_op_write.sum",
                           // Spills.
                           "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
                           "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
                           "sm__warps_active.avg.pct_of_peak_sustained_active",
                           "sm__inst_executed.sum",
                           "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
                           "launch__grid_size",
                           "launch__block_size",
                           "launch__registers_per_thread",
                           "launch__waves_per_multiprocessor",
                           "launch__occupancy_limit_registers",
                           "launch__shared_mem_per_block_static",
                           "launch__shared_mem_per_block_dynamic",
                       });
}

std::vector<std::string> pipes_metrics(int cc) {
  return named_for(cc, {
                           "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                           "sm__inst_executed_pipe_xu.sum",
                           "smsp__issue_active.avg.pct_of_peak_sustained_active",
                           "gpc__cycles_elapsed.avg.per_second",
                           "gpc__cycles_elapsed.max",
                       });
}

std::string metric_alias(const std::string& canonical, int cc) {
  if (cc / 10 == 12) {
    if (canonical == "dram__bytes_read.sum") return "dram__bytes_op_read.sum";
    if (canonical == "dram__bytes_write.sum") return "dram__bytes_op_write.sum";
  }
  return canonical;
}

}  // namespace capstone::claims
