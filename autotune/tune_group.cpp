// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>

#include "autotune/gate.hpp"
#include "autotune/group.hpp"
#include "autotune/search.hpp"

namespace capstone::tools {
namespace {

using clock = std::chrono::steady_clock;

void note_compilation(group& work, const std::map<std::string, image>& images) {
  for (std::size_t i = 0; i < work.candidates.size(); ++i) {
    auto& each = work.candidates[i];
    bool complete = true;
    for (const auto& type : work.types[i]) {
      const auto found = images.find(type);
      if (found == images.end()) {
        complete = false;
      } else if (!found->second.error.empty()) {
        each.state = status::compile_error;
        each.why = found->second.error;
      } else if (found->second.spill_bytes > 0 && each.state == status::untried) {
        each.state = status::spilled;
        each.why = std::to_string(found->second.spill_bytes) + " bytes of registers spilled";
      }
    }
    if (complete && each.state != status::compile_error) ++work.counts.compiled;
    // `ok` stands for "may be gated" from here on.
    if (complete && each.state == status::untried) each.state = status::ok;
  }
}

void count_states(group& work) {
  for (const auto& each : work.candidates) {
    work.counts.compile_error += each.state == status::compile_error;
    work.counts.spilled += each.state == status::spilled;
    work.counts.wrong += each.state == status::wrong || each.state == status::nondeterministic;
    work.counts.crashed += each.state == status::crash || each.state == status::launch_error;
    work.counts.implausible += each.state == status::implausible;
  }
}

void print_failures(const group& work) {
  std::map<status, std::pair<int, const candidate*>> failures;
  for (const auto& each : work.candidates) {
    if (each.state == status::ok || each.state == status::untried) continue;
    auto& entry = failures[each.state];
    if (entry.first++ == 0) entry.second = &each;
  }
  for (const auto& [state, entry] : failures) {
    std::printf("  %d %s, e.g. %s: %s\n", entry.first, token(state),
                config_text(*work.of, entry.second->values).c_str(), entry.second->why.c_str());
  }
}

class group_tuner {
 public:
  group_tuner(group& work, const device& where, const std::map<std::string, image>& images,
              std::uint64_t seed)
      : work_(work), where_(where), seed_(seed), kernels_(where, images),
        gate_(where, *work.of, *work.kernel, work.shapes.front().at, kernels_.run(), seed) {}

  std::vector<shape_result> tune(deadline end, bool limited) {
    const auto begin = clock::now();
    const auto part_of_time = [&](double share) {
      return limited ? begin + std::chrono::duration_cast<clock::duration>((end - begin) * share)
                     : deadline::max();
    };
    pass_gate(part_of_time(0.35));
    std::vector<std::unique_ptr<shape_bench>> benches;
    std::vector<std::vector<screened>> times;
    std::size_t total = 0;
    for (const auto& shape : work_.shapes) total += passed(shape).size();
    progress shown("timing " + work_.name(), total);
    for (std::size_t s = 0; s < work_.shapes.size(); ++s) {
      // One shape's buffers at a time: the large ones would not all fit.
      auto bench = bench_of(work_.shapes[s]);
      const double share = 0.35 + 0.4 * double(s + 1) / double(work_.shapes.size());
      times.push_back(plausible(work_.shapes[s],
                                bench->screen(passed(work_.shapes[s]), part_of_time(share),
                                              [&](std::size_t n) { shown.step(n); })));
    }
    shown.finish();
    for (const auto& each : times) {
      for (const auto& one : each) timed_.insert(one.values);
    }
    work_.counts.timed = static_cast<std::int64_t>(timed_.size());

    const auto reductions = best_reductions(*work_.of, times);
    std::vector<shape_result> results;
    for (std::size_t s = 0; s < work_.shapes.size(); ++s) {
      auto chosen = select_finalists(*work_.of, times[s], reductions);
      auto bench = bench_of(work_.shapes[s]);
      std::erase_if(chosen, [&](const config& values) {
        const auto found = gate_.test_at(bench->shape(), bench->first_set(), values, true);
        return !still_good(values, found);
      });
      if (chosen.empty()) continue;
      auto finals = bench->run_off(chosen);
      const auto limit = implausible_below_us(where_, work_.kernel->traffic(bench->shape()));
      std::erase_if(finals, [&](const finalist& f) { return f.median_us < limit; });
      if (!finals.empty()) results.push_back({work_.shapes[s].at.shape[0], std::move(finals)});
    }
    return results;
  }

 private:
  std::unique_ptr<shape_bench> bench_of(const shape_work& shape) {
    return std::make_unique<shape_bench>(where_, *work_.of, *work_.kernel, shape.at, kernels_,
                                         seed_);
  }

  candidate& of_values(const config& values) {
    return *std::find_if(work_.candidates.begin(), work_.candidates.end(),
                         [&](const candidate& each) { return each.values == values; });
  }

  bool still_good(const config& values, const verdict& found) {
    if (found.state == status::ok) return true;
    auto& mine = of_values(values);
    mine.state = found.state;
    mine.why = found.why;
    if (found.state == status::crash) {
      throw device_crashed("candidate " + config_text(*work_.of, values) + " of " + work_.name() +
                           " crashed the device (" + found.why +
                           "), and this process can use it no more; what was frozen before stays");
    }
    return false;
  }

  void pass_gate(deadline end) {
    progress shown("checking " + work_.name(), work_.candidates.size());
    for (std::size_t i = 0; i < work_.candidates.size(); ++i) {
      auto& each = work_.candidates[i];
      if (each.state == status::ok) {
        if (i > 0 && clock::now() > end) {
          each.state = status::untried;
        } else {
          still_good(each.values, gate_.test(each.values));
        }
      }
      shown.step(1);
    }
    shown.finish();
  }

  std::vector<config> passed(const shape_work& shape) const {
    std::vector<config> found;  // in the candidates' order, which is the random one
    for (const auto& each : work_.candidates) {
      const bool here = std::find(shape.configs.begin(), shape.configs.end(), each.values) !=
                        shape.configs.end();
      if (here && each.state == status::ok) found.push_back(each.values);
    }
    return found;
  }

  std::vector<screened> plausible(const shape_work& shape, std::vector<screened> all) {
    const auto limit = implausible_below_us(where_, work_.kernel->traffic(shape.at));
    std::erase_if(all, [&](const screened& each) {
      if (each.us >= limit) return false;
      auto& mine = of_values(each.values);
      mine.state = status::implausible;
      mine.why = std::to_string(each.us) + " us is less than the " + std::to_string(limit) +
                 " us that the memory needs for these bytes";
      return true;
    });
    return all;
  }

  group& work_;
  const device& where_;
  std::uint64_t seed_;
  loaded_kernels kernels_;
  gate gate_;
  std::set<config> timed_;
};

}  // namespace

std::vector<shape_result> tune_group(group& work, const device& where,
                                     const std::map<std::string, image>& images,
                                     std::uint64_t seed, deadline end, bool limited) {
  note_compilation(work, images);
  auto results = group_tuner(work, where, images, seed).tune(end, limited);
  count_states(work);
  print_failures(work);
  return results;
}

}  // namespace capstone::tools
