// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/search.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <map>

#include "core/stats.hpp"

namespace capstone::tools {
namespace {

constexpr std::size_t batch = 32;       // arms of one screening call
constexpr int screen_rounds = 4;
constexpr double screen_sample_us = 300;
constexpr int run_off_rounds = 40, host_run_off_rounds = 15;
constexpr double run_off_sample_us = 500;
constexpr int max_sets = 256;           // of tiny shapes; with too few the timer flushes L2

}  // namespace

std::vector<config> best_reductions(const op& of,
                                    const std::vector<std::vector<screened>>& shapes) {
  std::map<config, std::vector<double>> ratios;  // one per shape where it was measured
  for (const auto& results : shapes) {
    std::map<config, double> best;
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& each : results) {
      fastest = std::min(fastest, each.us);
      const auto reduction = part_of(of, each.values, part::reduction);
      const auto [at, is_new] = best.emplace(reduction, each.us);
      if (!is_new) at->second = std::min(at->second, each.us);
    }
    for (const auto& [reduction, us] : best) ratios[reduction].push_back(us / fastest);
  }
  std::vector<std::pair<double, config>> ranked;
  for (const auto& [reduction, all] : ratios) {
    if (all.size() != shapes.size()) continue;
    ranked.emplace_back(*std::max_element(all.begin(), all.end()), reduction);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<config> found;
  for (const auto& [worst, reduction] : ranked) {
    if (found.size() < static_cast<std::size_t>(reductions_kept)) found.push_back(reduction);
  }
  return found;
}

std::vector<config> select_finalists(const op& of, std::vector<screened> results,
                                     const std::vector<config>& reductions) {
  std::sort(results.begin(), results.end(), [](const auto& a, const auto& b) {
    return a.us != b.us ? a.us < b.us : a.values < b.values;
  });
  std::vector<config> found;
  std::map<config, int> taken;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto reduction = part_of(of, results[i].values, part::reduction);
    const bool kept = std::count(reductions.begin(), reductions.end(), reduction) > 0;
    const bool of_reduction = kept && taken[reduction] < finalists_per_reduction;
    if (i >= static_cast<std::size_t>(finalists_overall) && !of_reduction) continue;
    ++taken[reduction];
    found.push_back(results[i].values);
  }
  return found;
}

double implausible_below_us(const device& where, const traffic_model& traffic) {
  if (where.is_host()) return 0;
  int khz = 0, bits = 0;
  const auto reads = [&](int& value, cudaDeviceAttr attribute) {
    return cudaDeviceGetAttribute(&value, attribute, where.ordinal) == cudaSuccess;
  };
  if (!reads(khz, cudaDevAttrMemoryClockRate) || !reads(bits, cudaDevAttrGlobalMemoryBusWidth)) {
    cudaGetLastError();
    return 0;
  }
  const double bytes_per_us = 2.0 * khz * (bits / 8) / 1000 * 1.1;  // two transfers a clock
  // Writes may stay in L2 when the kernel ends.
  const auto written = std::max<std::int64_t>(0, traffic.written_bytes - where.limits.l2_bytes);
  return bytes_per_us > 0 ? double(traffic.read_bytes + written) / bytes_per_us : 0;
}

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

std::vector<launch_plan> shape_bench::plans_of(const config& values) const {
  std::vector<launch_plan> plans;
  for (const auto& set : sets_) {
    plans.push_back(kernel_.plan(at_, set.data(), values, where_.limits));
  }
  return plans;
}

std::vector<launch_plan> shape_bench::default_plans() const {
  std::vector<launch_plan> plans;
  const auto values = kernel_.default_config(at_);
  for (const auto& set : sets_) {
    plans.push_back(kernel_.default_plan(at_, set.data(), values, where_.limits));
  }
  return plans;
}

arm shape_bench::arm_of(const std::string& name, const std::vector<launch_plan>& plans) {
  const auto kernel = kernels_.find(plans.at(0));
  return {name, [this, kernel, plans](int set, void* stream) {
            launch(where_, kernel, plans[static_cast<std::size_t>(set)], stream);
          }};
}

timing_options shape_bench::options(int rounds, double sample_us, double warm_up_ms) const {
  const auto traffic = kernel_.traffic(at_);
  timing_options how;
  how.sets = static_cast<int>(sets_.size());
  how.bytes_per_call = traffic.read_bytes + traffic.written_bytes;
  how.rounds = rounds;
  how.sample_us = sample_us;
  how.seed = seed_;
  how.warm_up_ms = warm_up_ms;
  return how;
}

std::vector<screened> shape_bench::screen(const std::vector<config>& configs, deadline end,
                                          const std::function<void(std::size_t)>& step) {
  std::vector<screened> results;
  for (std::size_t first = 0; first < configs.size(); first += batch) {
    if (!results.empty() && std::chrono::steady_clock::now() > end) break;
    const auto last = std::min(configs.size(), first + batch);
    std::vector<arm> arms = {arm_of("default", default_plans())};
    for (auto i = first; i < last; ++i) arms.push_back(arm_of("candidate", plans_of(configs[i])));
    const double warm_up_ms = warm_ || where_.is_host() ? 0 : 100;
    const auto times =
        time_arms(where_, arms, options(screen_rounds, screen_sample_us, warm_up_ms));
    warm_ = true;
    for (auto i = first; i < last; ++i) {
      results.push_back({configs[i], median(times.arms[i - first + 1].us)});
    }
    step(last - first);
  }
  return results;
}

std::vector<finalist> shape_bench::run_off(const std::vector<config>& configs) {
  const int rounds = where_.is_host() ? host_run_off_rounds : run_off_rounds;
  std::vector<arm> arms = {arm_of("default", default_plans())};
  for (const auto& values : configs) {
    arms.push_back(arm_of(config_text(op_, values), plans_of(values)));
  }
  const auto times = time_arms(where_, arms,
                               options(rounds, run_off_sample_us, where_.is_host() ? 0 : 100));
  const auto& base = times.arms[0].us;
  std::vector<finalist> results;
  std::size_t best = 0;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const auto& us = times.arms[i + 1].us;
    const auto band = bootstrap_median(us, seed_);
    finalist mine;
    mine.values = configs[i];
    mine.median_us = median(us);
    mine.ci_low_us = band.low;
    mine.ci_high_us = band.high;
    mine.vs_default = paired_ratio(base, us, seed_).median;
    mine.rounds = rounds;
    mine.threads =
        static_cast<int>(kernel_.plan(at_, sets_[0].data(), configs[i], where_.limits).block);
    results.push_back(std::move(mine));
    if (results[i].vs_default > results[best].vs_default) best = i;
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].relative =
        paired_ratio(times.arms[i + 1].us, times.arms[best + 1].us, seed_).median;
  }
  return results;
}

}  // namespace capstone::tools
