// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/freeze.hpp"

#include "core/stats.hpp"
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

namespace capstone::tools {
namespace {

struct measured_one {
  config values;
  double median_us = 0, ci_low_us = 0, ci_high_us = 0, relative = 1, vs_default = 1;
  int rounds = 0, threads = 0;
};
struct measured_shape {
  std::int64_t rows = 0;
  std::vector<measured_one> finalists;
};
measured_shape convert(const shape_result& from) {
  measured_shape to{from.rows, {}};
  std::size_t best = 0;
  for (const auto& f : from.finalists) {
    const auto band = bootstrap_median(f.us, 1);
    to.finalists.push_back({f.values, median(f.us), band.low, band.high, 1, paired_ratio(from.default_us, f.us, 1).median, int(f.us.size()), f.threads});
    if (to.finalists.back().vs_default > to.finalists[best].vs_default) best = to.finalists.size() - 1;
  }
  for (std::size_t i = 0; i < to.finalists.size(); ++i) to.finalists[i].relative = paired_ratio(from.finalists[i].us, from.finalists[best].us, 1).median;
  return to;
}

constexpr double never = std::numeric_limits<double>::infinity();

struct reduction_choice {
  config values;
  double worst = never;
  std::int64_t at_rows = 0;
};

double best_relative(const op& of, const measured_shape& shape, const config& reduction) {
  double best = never;
  for (const auto& each : shape.finalists) {
    if (part_of(of, each.values, part::reduction) == reduction) {
      best = std::min(best, each.relative);
    }
  }
  return best;
}

reduction_choice choose_reduction(const op& of, const std::vector<measured_shape>& shapes) {
  std::set<config> reductions;
  for (const auto& shape : shapes) {
    for (const auto& each : shape.finalists) {
      reductions.insert(part_of(of, each.values, part::reduction));
    }
  }
  reduction_choice chosen;
  for (const auto& reduction : reductions) {
    reduction_choice mine{reduction, 0, 0};
    for (const auto& shape : shapes) {
      // Relative to the best of any reduction, which noise may have left a little below 1.
      double best = never;
      for (const auto& each : shape.finalists) best = std::min(best, each.relative);
      const double ratio = best_relative(of, shape, reduction) / best;
      if (ratio > mine.worst) mine = {reduction, ratio, shape.rows};
    }
    if (mine.worst < chosen.worst) chosen = mine;
  }
  if (chosen.worst == never) {
    throw std::invalid_argument("no reduction was measured at every row count");
  }
  return chosen;
}

// The finalists of a shape within the chosen reduction, with their loss against its best.
struct option {
  const measured_one* measured;
  double loss;
};
using options = std::map<config, option>;

options options_of(const op& of, const measured_shape& shape, const config& reduction) {
  const double best = best_relative(of, shape, reduction);
  options found;
  for (const auto& each : shape.finalists) {
    if (part_of(of, each.values, part::reduction) != reduction) continue;
    if (each.relative / best <= merge_band) found[each.values] = {&each, each.relative / best};
  }
  return found;
}

// Greedy cover: again and again the config that serves most of the shapes still without one.
std::vector<config> choose_schedules(const std::vector<options>& shapes,
                                     const std::vector<config>& elsewhere) {
  std::vector<config> chosen(shapes.size());
  std::vector<bool> covered(shapes.size(), false);
  while (std::find(covered.begin(), covered.end(), false) != covered.end()) {
    struct bid {
      int served = 0, tied = 0, threads = 0;
      bool known = false;
    };
    std::map<config, bid> bids;
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      if (covered[s]) continue;
      for (const auto& [values, each] : shapes[s]) {
        auto& mine = bids[values];
        ++mine.served;
        mine.tied += each.loss <= tie_band;
        mine.threads = each.measured->threads;
        mine.known = std::count(elsewhere.begin(), elsewhere.end(), values) > 0;
      }
    }
    // Serving one shape saves no kernel, so only the tie band excuses a loss there.
    const config* winner = nullptr;
    const auto rank = [](const bid& b) {
      return std::tuple(-b.served, -b.tied, !b.known, b.threads);
    };
    for (const auto& [values, mine] : bids) {  // in lexicographic order: the first of equals stays
      if (mine.served == 1 && mine.tied == 0) continue;
      if (winner == nullptr || rank(mine) < rank(bids[*winner])) winner = &values;
    }
    for (std::size_t s = 0; s < shapes.size(); ++s) {
      if (covered[s] || shapes[s].count(*winner) == 0) continue;
      covered[s] = true;
      chosen[s] = *winner;
    }
  }
  return chosen;
}

std::string major_of(const std::string& version) { return version.substr(0, version.find('.')); }

}  // namespace

cols_entry freeze_cols(const op& of, std::int64_t cols, std::vector<shape_result> given,
                       const std::vector<config>& chosen) {
  std::vector<measured_shape> shapes;
  for (const auto& each : given) shapes.push_back(convert(each));
  std::sort(shapes.begin(), shapes.end(),
            [](const auto& a, const auto& b) { return a.rows < b.rows; });
  const auto reduction = choose_reduction(of, shapes);
  std::vector<options> within;
  for (const auto& shape : shapes) within.push_back(options_of(of, shape, reduction.values));
  const auto configs = choose_schedules(within, chosen);

  cols_entry entry;
  entry.lo = entry.hi = cols;
  entry.reduction = tokens_of(of, configs[0], part::reduction);
  entry.invariance_worst = reduction.worst;
  entry.invariance_at_rows = reduction.at_rows == 0 ? shapes[0].rows : reduction.at_rows;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const auto& best = *within[s].at(configs[s]).measured;
    rows_entry rows;
    rows.lo = s == 0 ? 1 : shapes[s - 1].rows + 1;
    rows.hi = s + 1 == shapes.size() ? 0 : shapes[s].rows;
    rows.measured_rows = shapes[s].rows;
    rows.schedule = tokens_of(of, configs[s], part::schedule);
    rows.evidence = {best.median_us, best.ci_low_us, best.ci_high_us, best.rounds,
                     best.vs_default, {}};
    for (const auto& [values, each] : within[s]) {
      if (values == configs[s] || each.loss > tie_band) continue;
      rows.evidence.ties.push_back(config_text(of, values));
    }
    entry.rows.push_back(std::move(rows));
  }
  return entry;
}

frozen_config merge(frozen_config fresh, const frozen_config& before,
                    std::vector<std::string>& notes) {
  const auto why = before.source != fresh.source           ? "the kernel's source has changed"
                   : before.axes != fresh.axes             ? "the axes or rules have changed"
                   : before.device.cc != fresh.device.cc || before.device.sms != fresh.device.sms ||
                           before.device.l2_bytes != fresh.device.l2_bytes
                       ? "it is another device's"
                   : major_of(before.toolchain.cuda) != major_of(fresh.toolchain.cuda)
                       ? "it was tuned with another CUDA major version"
                       : nullptr;
  for (const auto& old : before.cols) {
    const auto same = std::find_if(fresh.cols.begin(), fresh.cols.end(), [&](const auto& entry) {
      return entry.lo <= old.hi && old.lo <= entry.hi;
    });
    const auto name = "cols " + std::to_string(old.lo) +
                      (old.lo == old.hi ? "" : " to " + std::to_string(old.hi));
    if (same != fresh.cols.end()) {
      std::string lost;
      for (const auto& rows : old.rows) {
        const bool kept = std::any_of(same->rows.begin(), same->rows.end(), [&](const auto& r) {
          return r.measured_rows == rows.measured_rows;
        });
        if (!kept) lost += (lost.empty() ? "" : ", ") + std::to_string(rows.measured_rows);
      }
      if (!lost.empty()) {
        notes.push_back(name + ": the row counts " + lost +
                        " were tuned before and are dropped; one run must tune all row counts of "
                        "a column count, because they share the reduction");
      }
    } else if (why != nullptr) {
      notes.push_back(name + ": the frozen entry is dropped because " + why + "; tune it again");
    } else {
      fresh.cols.push_back(old);
    }
  }
  std::sort(fresh.cols.begin(), fresh.cols.end(), [](const auto& a, const auto& b) {
    return std::tie(a.lo, a.hi) < std::tie(b.lo, b.hi);
  });
  return fresh;
}

}  // namespace capstone::tools
