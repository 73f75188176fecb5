// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/bench.hpp"

#include "autotune/space.hpp"

namespace capstone::tools {
namespace {

constexpr int max_sets = 256;  // of tiny shapes; with too few the timer flushes L2

}  // namespace

shape_bench::shape_bench(const device& where, const op& of, const kernel_spec& kernel,
                         const problem& at, loaded_kernels& kernels, std::uint64_t seed)
    : where_(where), op_(of), kernel_(kernel), at_(at), kernels_(kernels), seed_(seed) {
  at_.in_place = false;
  const auto descs = kernel.buffers(at_);
  const auto traffic = kernel.traffic(at_);
  const int sets = sets_for_cold(where, traffic.read_bytes + traffic.written_bytes,
                                 buffer_set::bytes_needed(descs), max_sets);
  sets_.reserve(static_cast<std::size_t>(sets));
  for (int i = 0; i < sets; ++i) {
    sets_.emplace_back(where, descs, seed + static_cast<std::uint64_t>(i));
  }
}

std::vector<launch_plan> shape_bench::plans_of(const std::optional<config>& values) const {
  std::vector<launch_plan> plans;
  for (const auto& set : sets_) {
    plans.push_back(values ? kernel_.plan(at_, set.data(), *values, where_.limits)
                           : kernel_.default_plan(at_, set.data(), kernel_.default_config(at_), where_.limits));
  }
  return plans;
}

timing shape_bench::time(const std::vector<std::optional<config>>& arms, int rounds, double sample_us,
                         double warm_up_ms) {
  std::vector<arm> timed;
  for (const auto& values : arms) {
    const auto plans = plans_of(values);
    const auto kernel = kernels_.find(plans.at(0));
    timed.push_back({values ? config_text(op_, *values) : "default", [this, kernel, plans](int set, void* stream) {
                       launch(where_, kernel, plans[static_cast<std::size_t>(set)], stream);
                     }});
  }
  const auto traffic = kernel_.traffic(at_);
  timing_options how;
  how.sets = static_cast<int>(sets_.size());
  how.bytes_per_call = traffic.read_bytes + traffic.written_bytes;
  how.rounds = rounds;
  how.sample_us = sample_us;
  how.seed = seed_;
  how.warm_up_ms = warm_up_ms;
  return time_arms(where_, timed, how);
}

}  // namespace capstone::tools
