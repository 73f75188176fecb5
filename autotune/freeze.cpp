// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/freeze.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "autotune/portfolio.hpp"
#include "core/stats.hpp"

namespace capstone::tools {
namespace {

/// A finalist where it ran, ranked against the default, which all arms of a shape share.
struct arm {
  const finalist* ran;
  config reduction;
  double vs_default;  // its time over the default's
};

/// The run-off at one row count, fastest first.
struct race {
  const shape_result* from;
  std::vector<arm> arms;

  const arm* best(const config* reduction = nullptr) const {
    for (const auto& each : arms) {
      if (reduction == nullptr || each.reduction == *reduction) return &each;
    }
    return nullptr;
  }
  const arm* find(const config& values) const {
    for (const auto& each : arms) {
      if (each.ran->values == values) return &each;
    }
    return nullptr;
  }
};

comparison race_of(const arm& one, const arm& other, std::size_t comparisons = 1) {
  if (&one == &other) return {};
  return compare(one.ran->us, other.ran->us, comparisons);
}

void sort_by_rows(std::vector<shape_result>& shapes) {
  std::sort(shapes.begin(), shapes.end(), [](const auto& a, const auto& b) { return a.rows < b.rows; });
}

std::vector<race> races_of(const op& of, const std::vector<shape_result>& shapes) {
  std::vector<race> races;
  for (const auto& shape : shapes) {
    race here{&shape, {}};
    for (const auto& each : shape.finalists) {
      here.arms.push_back({&each, part_of(of, each.values, part::reduction), compare(each.us, shape.default_us).ratio});
    }
    std::sort(here.arms.begin(), here.arms.end(), [](const arm& a, const arm& b) {
      return std::tie(a.vs_default, a.ran->values) < std::tie(b.vs_default, b.ran->values);
    });
    races.push_back(std::move(here));
  }
  return races;
}

struct reduction_choice {
  config values;
  double worst = std::numeric_limits<double>::infinity();
  std::int64_t at_rows = 0;
};

// Whether leaving `old` for `other` is proven to gain: only then may the bits of the results change.
bool proven_better(const std::vector<race>& races, const reduction_choice& other, const reduction_choice& old) {
  if (old.worst <= other.worst * tie_band) return false;
  return std::any_of(races.begin(), races.end(), [&](const race& here) {
    return race_of(*here.best(&old.values), *here.best(&other.values), here.arms.size() * races.size()).slower();
  });
}

reduction_choice choose_reduction(const op& of, const std::vector<race>& races) {
  std::set<config> reductions;
  for (const auto& here : races) {
    for (const auto& each : here.arms) reductions.insert(each.reduction);
  }
  config before;
  for (const auto& here : races) {
    if (!here.from->incumbent.empty()) before = part_of(of, here.from->incumbent, part::reduction);
  }
  reduction_choice chosen, incumbent;
  for (const auto& reduction : reductions) {
    reduction_choice mine{reduction, 0, 0};
    for (const auto& here : races) {
      const auto* best = here.best(&reduction);
      const double loss = best == nullptr ? std::numeric_limits<double>::infinity()
                                          : std::max(1.0, race_of(*best, *here.best()).ratio);
      if (loss > mine.worst) mine = {reduction, loss, here.from->rows};
    }
    if (mine.worst < chosen.worst) chosen = mine;
    if (reduction == before) incumbent = mine;
  }
  if (!std::isfinite(chosen.worst)) throw std::invalid_argument("no reduction was measured at every row count");
  return std::isfinite(incumbent.worst) && !proven_better(races, chosen, incumbent) ? incumbent : chosen;
}

// The incumbent where nothing of its reduction is proven to be faster by more than the tie band.
const arm* lasting_incumbent(const race& here, const config& reduction) {
  const auto* old = here.find(here.from->incumbent);
  if (old == nullptr || old->reduction != reduction) return nullptr;
  std::vector<const arm*> rivals;
  for (const auto& each : here.arms) {
    if (each.reduction == reduction && &each != old) rivals.push_back(&each);
  }
  const bool beaten = std::any_of(rivals.begin(), rivals.end(),
                                  [&](const arm* each) { return race_of(*old, *each, rivals.size()).slower(); });
  return beaten ? nullptr : old;
}

std::vector<config> choose_schedules(const std::vector<race>& races, const config& reduction,
                                     const std::vector<config>& elsewhere, double band) {
  const bool squeezed = band > merge_band;
  std::map<config, contender> contenders;
  std::vector<const arm*> stays(races.size(), nullptr);
  for (std::size_t s = 0; s < races.size(); ++s) {
    const auto& best = *races[s].best(&reduction);
    if (!squeezed) stays[s] = lasting_incumbent(races[s], reduction);
    for (const auto& each : races[s].arms) {
      if (each.reduction != reduction) continue;
      const auto loss = race_of(each, best);
      auto& mine = contenders[each.ran->values];
      mine.threads = std::max(mine.threads, each.ran->threads);
      if (loss.within()) mine.loss[s] = 0;
      else if (loss.ratio <= band) mine.loss[s] = std::max(1ll, std::llround((loss.ratio - 1) * 1e6));
    }
  }
  for (auto& [values, mine] : contenders) {
    mine.known = std::find(elsewhere.begin(), elsewhere.end(), values) != elsewhere.end();
    mine.free = squeezed && mine.known;
    for (std::size_t s = 0; s < races.size(); ++s) {
      mine.incumbent |= races[s].from->incumbent == values;
      mine.free |= stays[s] != nullptr && stays[s]->ran->values == values;
    }
  }
  // The incumbents that stay are the only choice at their row counts, and free at the others.
  for (std::size_t s = 0; s < races.size(); ++s) {
    if (stays[s] == nullptr) continue;
    for (auto& [values, mine] : contenders) mine.loss.erase(s);
    contenders[stays[s]->ran->values].loss[s] = 0;
  }
  return smallest_cover(contenders, races.size());
}

std::string major_of(const std::string& version) { return version.substr(0, version.find('.')); }

}  // namespace

frozen_choice choose(const op& of, std::vector<shape_result> shapes, const std::vector<config>& elsewhere,
                     double band) {
  if (shapes.empty()) throw std::invalid_argument("shapes is empty; expected the run-off of at least one row count");
  sort_by_rows(shapes);
  const auto races = races_of(of, shapes);
  const auto reduction = choose_reduction(of, races);
  return {reduction.values, reduction.worst, reduction.at_rows,
          choose_schedules(races, reduction.values, elsewhere, band)};
}

cols_entry freeze_cols(const op& of, std::int64_t cols, std::vector<shape_result> shapes,
                       const std::vector<config>& elsewhere, double band) {
  sort_by_rows(shapes);
  const auto chosen = choose(of, shapes, elsewhere, band);
  const auto races = races_of(of, shapes);
  cols_entry entry;
  entry.lo = entry.hi = cols;
  entry.reduction = tokens_of(of, chosen.configs[0], part::reduction);
  entry.invariance_worst = chosen.worst;
  entry.invariance_at_rows = chosen.worst_rows;
  if (band > merge_band) entry.merge_band = band;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const auto& mine = *races[s].find(chosen.configs[s]);
    const auto ci = bootstrap_median(mine.ran->us, 1);
    rows_entry rows;
    rows.lo = s == 0 ? 1 : shapes[s - 1].rows + 1;
    rows.hi = s + 1 == shapes.size() ? 0 : shapes[s].rows;
    rows.measured_rows = shapes[s].rows;
    rows.schedule = tokens_of(of, chosen.configs[s], part::schedule);
    rows.evidence = {median(mine.ran->us), ci.low, ci.high, static_cast<std::int64_t>(mine.ran->us.size()),
                     compare(shapes[s].default_us, mine.ran->us).ratio, {}};
    rows.merge_cost = std::max(1.0, race_of(mine, *races[s].best(&chosen.reduction)).ratio);
    std::set<config> ties;
    for (const auto& each : races[s].arms) {
      const bool same_bits = each.reduction == chosen.reduction && &each != &mine;
      if (same_bits && !race_of(each, *races[s].best(&chosen.reduction)).slower()) ties.insert(each.ran->values);
    }
    for (const auto& values : ties) rows.evidence.ties.push_back(config_text(of, values));
    entry.rows.push_back(std::move(rows));
  }
  return entry;
}

std::vector<cols_entry> freeze_all(const op& of, std::vector<cols_result> results, const std::vector<config>& elsewhere,
                                   std::size_t most, std::vector<std::string>& notes) {
  std::sort(results.begin(), results.end(), [](const auto& a, const auto& b) { return a.cols < b.cols; });
  std::vector<double> bands = {merge_band};
  bands.insert(bands.end(), std::begin(wider_bands), std::end(wider_bands));
  std::size_t narrow = 0, count = 0;
  double used = merge_band;
  for (const double band : bands) {
    std::vector<config> chosen = elsewhere;
    for (const auto& each : results) {
      const auto mine = choose(of, each.shapes, chosen, band).configs;
      chosen.insert(chosen.end(), mine.begin(), mine.end());
    }
    count = std::set<config>(chosen.begin(), chosen.end()).size();
    if (band == merge_band) narrow = count;
    used = band;
    if (count <= most) break;
  }
  // Where even the widest saves nothing, nothing is paid.
  if (count >= narrow) used = merge_band, count = narrow;
  const auto per_cent = [](double band) { return format_double((band - 1) * 100) + " %"; };
  if (used > merge_band) {
    notes.push_back("the file would have " + std::to_string(narrow) + " configs, more than " + std::to_string(most) +
                    ": row counts may lose up to " + per_cent(used) + ", not " + per_cent(merge_band) +
                    ", to share one, which leaves " + std::to_string(count));
  }
  if (count > most) {
    notes.push_back("the file has " + std::to_string(count) + " configs, more than " + std::to_string(most) +
                    ", and what may be lost to share one does not bring it below: users compile longer");
  }
  std::vector<cols_entry> entries;
  std::vector<config> known = elsewhere;
  for (const auto& each : results) {
    entries.push_back(freeze_cols(of, each.cols, each.shapes, known, used));
    for (const auto& rows : entries.back().rows) {
      known.push_back(config_from(of, entries.back().reduction, rows.schedule));
    }
  }
  return entries;
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
