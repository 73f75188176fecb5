// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/search.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "autotune/space.hpp"

namespace capstone::tools {

std::vector<config> best_reductions(const op& of,
                                    const std::vector<std::vector<screened>>& shapes) {
  std::map<config, std::vector<double>> ratios;  // one per shape where it was measured
  for (const auto& results : shapes) {
    std::map<config, double> best;
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& each : results) {
      fastest = std::min(fastest, each.ratio);
      const auto reduction = part_of(of, each.values, part::reduction);
      const auto [at, is_new] = best.emplace(reduction, each.ratio);
      if (!is_new) at->second = std::min(at->second, each.ratio);
    }
    for (const auto& [reduction, ratio] : best) ratios[reduction].push_back(ratio / fastest);
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

std::vector<config> select_fastest(const op& of, std::vector<screened> results, const std::vector<config>& reductions,
                                   std::size_t overall) {
  std::sort(results.begin(), results.end(), [](const auto& a, const auto& b) {
    return a.ratio != b.ratio ? a.ratio < b.ratio : a.values < b.values;
  });
  std::vector<config> found;
  std::map<config, int> taken;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto reduction = part_of(of, results[i].values, part::reduction);
    const bool kept = std::count(reductions.begin(), reductions.end(), reduction) > 0;
    const bool of_reduction = kept && taken[reduction] < finalists_per_reduction;
    if (i >= overall && !of_reduction) continue;
    ++taken[reduction];
    found.push_back(results[i].values);
  }
  return found;
}

double implausible_below_us(double peak_gbps, std::int64_t l2_bytes, const traffic_model& traffic) {
  const double bytes_per_us = peak_gbps * 1e3 * 1.1;
  // Writes may stay in L2 when the kernel ends.
  const auto written = std::max<std::int64_t>(0, traffic.written_bytes - l2_bytes);
  return bytes_per_us > 0 ? double(traffic.read_bytes + written) / bytes_per_us : 0;
}

}  // namespace capstone::tools
