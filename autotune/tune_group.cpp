// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <set>

#include "autotune/gate.hpp"
#include "autotune/group.hpp"
#include "autotune/search.hpp"
#include "core/shapes.hpp"
#include "core/stats.hpp"

namespace capstone::tools {
namespace {

using clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::size_t batch = 32;          // arms of one screening request
constexpr std::size_t most_finalists = 32;
constexpr int run_off_rounds = 40, host_run_off_rounds = 15;
constexpr double run_off_sample_us = 500;

bool failed(const candidate& each) { return each.state != status::ok && each.state != status::untried; }

void count_states(group& work) {
  auto& counts = work.counts;
  for (const auto& each : work.candidates) {
    const auto is = [&](std::initializer_list<status> any) { return std::count(any.begin(), any.end(), each.state) > 0; };
    counts.compile_error += is({status::compile_error, status::compile_timeout});
    counts.spilled += is({status::spilled});
    counts.wrong += is({status::wrong, status::nondeterministic});
    counts.crashed += is({status::crash, status::timeout, status::out_of_memory, status::launch_error});
    counts.implausible += is({status::implausible});
  }
}

std::vector<finalist> arms_of(const op& of, const json& run_off, bool audited) {
  std::vector<finalist> found;
  for (const auto& each : run_off.at("arms")) {
    if (each.at("audited") != audited) continue;
    found.push_back({config_from_json(of, each.at("config")), each.at("threads"), each.at("us").get<std::vector<double>>()});
  }
  return found;
}

class group_tuner {
 public:
  group_tuner(group& work, worker_session& on, journal& log, deadline end, bool limited)
      : work_(work), on_(on), log_(log), begin_(clock::now()), end_(end), limited_(limited),
        label_(work.name() + " on " + on.where().id) {}

  std::vector<shape_result> tune() {
    pass_gate(part_of_time(0.35));
    narrow_down();
    std::vector<shape_result> results;
    json run_offs = json::array();
    for (std::size_t s = 0; s < work_.shapes.size(); ++s) {
      const auto* line = run_off(work_.shapes[s]);
      if (line == nullptr) continue;
      auto result = shape_result_from(*work_.of, *line);
      if (result.finalists.empty()) continue;
      audit_shape(s, result, arms_of(*work_.of, *line, true));
      run_offs.push_back(line->at("key"));
      results.push_back(std::move(result));
    }
    count_states(work_);
    if (results.size() == work_.shapes.size()) {
      log_.add({{"key", group_key(work_)}, {"phase", "group"}, {"cols", work_.cols()}, {"run_offs", run_offs}, {"counts", to_json(work_.counts)},
                {"audit", work_.audit}, {"complete", !cut_}});
    }
    return results;
  }

 private:
  std::string key_of(const std::string& phase, const std::string& rest) const {
    return content_key(phase + " cols=" + std::to_string(work_.cols()) + " " + rest);
  }
  std::string text(const config& values) const { return config_text(*work_.of, values); }

  deadline part_of_time(double share) const {
    return limited_ ? begin_ + std::chrono::duration_cast<clock::duration>((end_ - begin_) * share) : deadline::max();
  }

  candidate& of_values(const config& values) {
    return *std::find_if(work_.candidates.begin(), work_.candidates.end(),
                         [&](const candidate& each) { return each.values == values; });
  }

  void fail(const config& values, const verdict& found) {
    auto& mine = of_values(values);
    mine.state = found.state;
    mine.why = found.why;
  }

  json line_of(const std::string& key, const char* phase, const config& values, const verdict& found) const {
    json line = {{"key", key}, {"phase", phase}, {"cols", work_.cols()}, {"config", config_json(*work_.of, values)}, {"state", token(found.state)}};
    if (!found.why.empty()) line["why"] = found.why;
    return line;
  }

  /// What the journal says under this key, or what `find_out` does, which the journal then keeps.
  template <class FindOut>
  verdict known(const std::string& key, const char* phase, const config& values, FindOut find_out) {
    const auto* line = log_.find(key);
    if (line == nullptr) line = &log_.add(line_of(key, phase, values, find_out()));
    return {status_of(line->at("state")), line->value("why", "")};
  }

  void pass_gate(deadline end) {
    progress shown("checking " + label_, work_.candidates.size());
    for (std::size_t i = 0; i < work_.candidates.size(); ++i) {
      auto& each = work_.candidates[i];
      if (each.state == status::ok) {
        if (i > 0 && clock::now() > end) {
          each.state = status::untried;
          cut_ = true;
        } else {
          fail(each.values, known(gate_key(work_, each.values), "gate", each.values, [&] { return on_.gate(each.values); }));
        }
      }
      shown.step(1);
    }
    shown.finish();
  }

  bool opened(const shape_work& shape) {
    if (open_ == &shape) return true;
    open_ = nullptr;
    const auto found = on_.open_shape(shape.at);
    if (found.state != status::ok) {
      std::printf("%s: %s is left out: %s\n", label_.c_str(), format_shape(shape.at.shape).c_str(), found.why.c_str());
      return false;
    }
    open_ = &shape;
    return true;
  }

  /// Times configs against the default in a few rounds. Where a request fails, halves find whose fault it is.
  void time_batch(const shape_work& shape, const rung& how, const std::vector<config>& configs, const std::string& stage) {
    std::vector<std::optional<config>> arms = {std::nullopt};
    arms.insert(arms.end(), configs.begin(), configs.end());
    const auto times = on_.time(arms, how.rounds, how.sample_us);
    if (times.result.state != status::ok && configs.size() > 1) {
      const auto middle = configs.begin() + std::ptrdiff_t(configs.size() / 2);
      time_batch(shape, how, {configs.begin(), middle}, stage);
      time_batch(shape, how, {middle, configs.end()}, stage);
      return;
    }
    const auto limit = implausible_below_us(on_.peak_gbps(), on_.where().limits.l2_bytes, work_.kernel->traffic(shape.at));
    for (std::size_t i = 0; i < configs.size(); ++i) {
      auto found = times.result;
      double us = 0, ratio = 0;
      if (found.state == status::ok) {
        us = median(times.us[i + 1]);
        ratio = paired_ratio(times.us[i + 1], times.us[0], 1).median;
        if (us < limit) found = {status::implausible, implausible_words(us, limit)};
      }
      auto line = line_of(key_of(stage, text(configs[i])), "screen", configs[i], found);
      line["shape"] = shape.at.shape;
      if (times.result.state == status::ok) line["us"] = us, line["ratio"] = ratio;
      log_.add(std::move(line));
    }
  }

  static std::string implausible_words(double us, double limit) {
    return std::to_string(us) + " us is less than the " + std::to_string(limit) + " us that the memory needs for these bytes";
  }

  std::vector<screened> screen(const shape_work& shape, std::size_t stage, const std::vector<config>& configs, deadline end,
                               progress& shown) {
    const auto name = "screen " + std::to_string(stage) + " " + format_shape(shape.at.shape);
    std::vector<config> todo;
    for (const auto& values : configs) {
      if (log_.find(key_of(name, text(values))) == nullptr) todo.push_back(values);
    }
    for (std::size_t first = 0; first < todo.size(); first += batch) {
      if (first > 0 && clock::now() > end) {
        cut_ = true;
        break;
      }
      if (!opened(shape)) return {};
      const auto last = std::min(todo.size(), first + batch);
      time_batch(shape, rungs[stage], {todo.begin() + std::ptrdiff_t(first), todo.begin() + std::ptrdiff_t(last)}, name);
      if (stage == 0) shown.step(last - first);
    }
    std::vector<screened> results;
    for (const auto& values : configs) {
      const auto* line = log_.find(key_of(name, text(values)));
      if (line == nullptr) continue;
      const verdict found{status_of(line->at("state")), line->value("why", "")};
      timed_.insert(values);
      if (found.state == status::ok) results.push_back({values, line->at("ratio")});
      else fail(values, found);
    }
    return results;
  }

  std::vector<config> passed(const shape_work& shape) const {
    std::vector<config> found;  // in the candidates' order, which is the random one
    for (const auto& each : work_.candidates) {
      if (each.state == status::ok && shape.has(each.values)) found.push_back(each.values);
    }
    return found;
  }

  /// Successive halving at every shape; leaves the finalists of all.
  void narrow_down() {
    std::vector<std::vector<config>> left;
    std::size_t total = 0;
    for (const auto& shape : work_.shapes) left.push_back(passed(shape)), total += left.back().size();
    progress shown("timing " + label_, total);
    std::map<config, double> finalists;  // with their smallest loss
    for (std::size_t stage = 0; stage < std::size(rungs); ++stage) {
      std::vector<std::vector<screened>> times;
      for (std::size_t s = 0; s < left.size(); ++s) {
        const double done = (double(stage) + double(s + 1) / double(left.size())) / double(std::size(rungs));
        times.push_back(screen(work_.shapes[s], stage, left[s], part_of_time(0.35 + 0.4 * done), shown));
      }
      // A candidate that failed at one shape is out at all.
      for (auto& each : times) std::erase_if(each, [&](const screened& one) { return of_values(one.values).state != status::ok; });
      std::vector<std::vector<config>> audited;
      for (std::size_t s = 0; s < left.size(); ++s) audited.push_back(take_audited(s, times[s], stage + 1 == std::size(rungs)));
      auto measured = times;
      std::erase_if(measured, [](const auto& each) { return each.empty(); });  // shapes that do not fit
      const auto reductions = best_reductions(*work_.of, measured);
      const bool last = stage + 1 == std::size(rungs);
      for (std::size_t s = 0; s < left.size(); ++s) {
        const auto keep = last ? finalists_overall : std::max(finalists_overall, left[s].size() / rungs[stage].keep);
        left[s] = select_fastest(*work_.of, times[s], reductions, keep);
        left[s].insert(left[s].end(), audited[s].begin(), audited[s].end());
        if (!last || left[s].empty()) continue;
        for (const auto& values : audited[s]) finalists.emplace(values, 0.0);
        double best = 1e300;
        for (const auto& one : times[s]) best = std::min(best, one.ratio);
        for (const auto& one : times[s]) {
          if (std::find(left[s].begin(), left[s].end(), one.values) == left[s].end()) continue;
          const auto [at, is_new] = finalists.emplace(one.values, one.ratio / best);
          if (!is_new) at->second = std::min(at->second, one.ratio / best);
        }
      }
    }
    shown.finish();
    work_.counts.timed = static_cast<std::int64_t>(timed_.size());
    std::vector<std::pair<double, config>> ranked;
    for (const auto& [values, loss] : finalists) ranked.emplace_back(loss, values);
    std::sort(ranked.begin(), ranked.end());
    for (const auto& [lo, hi, values] : work_.incumbents) {
      if (std::find(finalists_.begin(), finalists_.end(), values) != finalists_.end()) continue;
      if (std::none_of(work_.candidates.begin(), work_.candidates.end(),
                       [&values = values](const candidate& c) { return c.values == values && c.state == status::ok; })) continue;
      finalists_.push_back(values);
    }
    for (const auto& [loss, values] : ranked) {
      const bool is_in = std::find(finalists_.begin(), finalists_.end(), values) != finalists_.end();
      if (!is_in && finalists_.size() < most_finalists) finalists_.push_back(values);
    }
  }

  /// Takes what is only audited out of a shape's times, notes how it did, and returns what of it goes on:
  /// the best of each rule, or the best of all.
  std::vector<config> take_audited(std::size_t s, std::vector<screened>& times, bool last) {
    const auto& shape = work_.shapes[s];
    if (shape.audited.empty()) return {};
    std::map<std::size_t, screened> best;  // by rule
    double lawful = 1e300;
    for (const auto& one : times) {
      const auto* rule = shape.audit_of(one.values);
      if (rule == nullptr) {
        lawful = std::min(lawful, one.ratio);
        continue;
      }
      const auto [at, is_new] = best.emplace(rule->rule, one);
      if (!is_new && one.ratio < at->second.ratio) at->second = one;
    }
    std::erase_if(times, [&](const screened& one) { return shape.audit_of(one.values) != nullptr; });
    std::vector<config> on;
    const screened* overall = nullptr;
    for (const auto& [rule, one] : best) {
      best_audited_[{s, rule}] = {one.values, one.ratio / lawful};
      if (overall == nullptr || one.ratio < overall->ratio) overall = &one;
      if (!last) on.push_back(one.values);
    }
    if (last && overall != nullptr) on.push_back(overall->values);
    return on;
  }

  /// What of a shape each rule alone kept out, and whether that was a winner.
  void audit_shape(std::size_t s, const shape_result& lawful, const std::vector<finalist>& audited) {
    const auto& shape = work_.shapes[s];
    for (const auto& rule : shape.audited) {
      std::map<std::string, int> failures;
      int tried = 0;
      for (const auto& mine : work_.candidates) {  // not all of them, where --max-candidates left some out
        if (mine.state == status::untried || std::find(rule.sample.begin(), rule.sample.end(), mine.values) == rule.sample.end()) continue;
        ++tried;
        if (failed(mine)) ++failures[token(mine.state)];
      }
      json line = {{"shape", shape.at.shape}, {"rule", work_.of->rules[rule.rule].reason}, {"pruned_alone", rule.count},
                   {"tried", tried}, {"failed", failures}};
      if (const auto best = best_audited_.find({s, rule.rule}); best != best_audited_.end()) {
        line["best"] = text(best->second.values), line["best_ratio"] = best->second.ratio;
      }
      work_.audit.push_back(line);
    }
    const auto fastest = std::min_element(lawful.finalists.begin(), lawful.finalists.end(),
                                          [](const auto& a, const auto& b) { return median(a.us) < median(b.us); });
    for (const auto& each : audited) {
      const auto gain = compare(fastest->us, each.us);
      work_.audit.push_back({{"shape", shape.at.shape}, {"rule", work_.of->rules[shape.audit_of(each.values)->rule].reason},
                             {"run_off", text(each.values)}, {"winner", text(fastest->values)},
                             {"gain", {gain.ratio, gain.low, gain.high}}, {"winner_lost", gain.slower()}});
    }
  }

  /// Whether a finalist's outputs at the tuned shape are right, before it is timed and again after.
  bool still_right(const shape_work& shape, const config& values, const std::string& when) {
    const auto found = known(key_of("check " + when + " " + format_shape(shape.at.shape), text(values)), "check", values,
                             [&] { return on_.check(values); });
    if (found.state != status::ok) fail(values, found);
    return found.state == status::ok;
  }

  /// All finalists that are legal at this shape, in one race. Returns the journal's line, or nullptr.
  const json* run_off(const shape_work& shape) {
    std::vector<config> racers;
    for (const auto& values : finalists_) {
      if (shape.has(values) && of_values(values).state == status::ok) racers.push_back(values);
    }
    std::string names;
    for (const auto& values : racers) names += text(values) + "; ";
    const auto key = key_of("run-off " + format_shape(shape.at.shape), names);
    if (const auto* line = log_.find(key)) return line;
    if (racers.empty() || !opened(shape)) return nullptr;
    std::erase_if(racers, [&](const config& values) { return !still_right(shape, values, "before"); });
    const int rounds = on_.where().is_host() ? host_run_off_rounds : run_off_rounds;
    arm_times times;
    while (!racers.empty()) {
      std::vector<std::optional<config>> arms = {std::nullopt, std::nullopt};
      arms.insert(arms.end(), racers.begin(), racers.end());
      times = on_.time(arms, rounds, run_off_sample_us);
      if (times.result.state == status::ok) break;
      const auto before = racers.size();
      std::erase_if(racers, [&](const config& values) {  // whose fault is it?
        const auto alone = on_.time({std::nullopt, values}, rungs[0].rounds, rungs[0].sample_us).result;
        if (alone.state != status::ok) fail(values, alone);
        return alone.state != status::ok;
      });
      if (racers.size() == before) racers.pop_back();  // nobody's alone: with one less it must end
    }
    if (racers.empty()) return nullptr;
    const auto limit = implausible_below_us(on_.peak_gbps(), on_.where().limits.l2_bytes, work_.kernel->traffic(shape.at));
    json arms = json::array();
    for (std::size_t i = 0; i < racers.size(); ++i) {
      const double us = median(times.us[i + 2]);
      if (us < limit) {
        const auto key = key_of("implausible at " + format_shape(shape.at.shape), text(racers[i]));
        fail(racers[i], known(key, "check", racers[i], [&] { return verdict{status::implausible, implausible_words(us, limit)}; }));
      }
      if (us < limit || !still_right(shape, racers[i], "after")) continue;
      const auto pointers = fake_pointers(work_.kernel->buffers(shape.at));
      arms.push_back({{"config", config_json(*work_.of, racers[i])},
                      {"audited", shape.audit_of(racers[i]) != nullptr},
                      {"threads", work_.kernel->plan(shape.at, pointers, racers[i], on_.where().limits).block},
                      {"us", times.us[i + 2]}});
    }
    if (arms.empty()) return nullptr;
    json line = {{"key", key}, {"phase", "run_off"}, {"shape", shape.at.shape}, {"timer", times.timer},
                 {"default_us", times.us[0]}, {"twin_us", times.us[1]}, {"arms", arms}};
    // On record, so that freezing again from the journal comes to the same: the file has moved on by then.
    for (const auto& [lo, hi, values] : work_.incumbents) {
      if (lo <= shape.at.shape[0] && (hi == 0 || shape.at.shape[0] <= hi)) line["incumbent"] = config_json(*work_.of, values);
    }
    return &log_.add(std::move(line));
  }

  group& work_;
  worker_session& on_;
  journal& log_;
  clock::time_point begin_;
  deadline end_;
  bool limited_, cut_ = false;  ///< the budget ended before all were tried
  std::string label_;
  const shape_work* open_ = nullptr;
  std::set<config> timed_;
  std::vector<config> finalists_;
  std::map<std::pair<std::size_t, std::size_t>, screened> best_audited_;  // by shape and rule; ratio to the best lawful one
};

}  // namespace

json config_json(const op& of, const config& values) {
  json found = json::object();
  for (std::size_t i = 0; i < of.axes.size(); ++i) found[of.axes[i].name] = of.axes[i].value_token(values[i]);
  return found;
}

config config_from_json(const op& of, const json& text) {
  config values;
  for (const auto& each : of.axes) values.push_back(each.value_of(text.at(each.name)));
  return values;
}

json to_json(const candidate_counts& from) {
  return {{"declared", from.declared}, {"pruned", from.pruned}, {"compiled", from.compiled}, {"compile_error", from.compile_error},
          {"spilled", from.spilled},   {"wrong", from.wrong},   {"crashed", from.crashed},   {"implausible", from.implausible},
          {"timed", from.timed}};
}

candidate_counts counts_from(const json& text) {
  candidate_counts counts;
  text.at("declared").get_to(counts.declared), text.at("pruned").get_to(counts.pruned), text.at("compiled").get_to(counts.compiled);
  text.at("compile_error").get_to(counts.compile_error), text.at("spilled").get_to(counts.spilled), text.at("wrong").get_to(counts.wrong);
  text.at("crashed").get_to(counts.crashed), text.at("implausible").get_to(counts.implausible), text.at("timed").get_to(counts.timed);
  return counts;
}

shape_result shape_result_from(const op& of, const json& run_off) {
  return {run_off.at("shape").at(0), run_off.at("default_us").get<std::vector<double>>(),
          run_off.at("twin_us").get<std::vector<double>>(), arms_of(of, run_off, false),
          run_off.contains("incumbent") ? config_from_json(of, run_off.at("incumbent")) : config{}};
}

std::string group_key(const group& work) {
  std::string all = "group cols=" + std::to_string(work.cols());
  for (const auto& shape : work.shapes) all += " " + format_shape(shape.at.shape);
  auto candidates = work.candidates;
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.values < b.values; });
  for (const auto& each : candidates) all += "; " + config_text(*work.of, each.values);
  return content_key(all);
}

std::optional<std::vector<shape_result>> finished_group(group& work, const journal& log) {
  const auto* line = log.find(group_key(work));
  if (line == nullptr || !line->at("complete")) return std::nullopt;
  std::vector<shape_result> results;
  for (const auto& key : line->at("run_offs")) {
    const auto* run_off = log.find(key);
    if (run_off == nullptr) return std::nullopt;
    results.push_back(shape_result_from(*work.of, *run_off));
  }
  work.counts = counts_from(line->at("counts"));
  work.audit = line->at("audit");
  return results;
}

void recall_failures(group& work, const journal& log) {
  for (auto& each : work.candidates) {
    for (const auto& key : {compile_key(work, each.values), gate_key(work, each.values)}) {
      const auto* line = log.find(key);
      if (line == nullptr || line->at("state") == token(status::ok)) continue;
      each.state = status_of(line->at("state"));
      each.why = line->value("why", "");
      work.counts.compiled += each.state != status::compile_error && each.state != status::compile_timeout;
      break;
    }
  }
}

std::string gate_key(const group& work, const config& values) {
  return content_key("gate cols=" + std::to_string(work.cols()) + " " + config_text(*work.of, values));
}

void note_compilation(group& work, const std::map<std::string, image>& images, journal& log) {
  for (std::size_t i = 0; i < work.candidates.size(); ++i) {
    auto& each = work.candidates[i];
    if (each.state != status::untried) continue;  // the journal knows
    bool complete = true;
    for (const auto& type : work.types[i]) {
      const auto found = images.find(type);
      if (found == images.end()) {
        complete = false;
      } else if (!found->second.error.empty()) {
        each.state = found->second.timed_out ? status::compile_timeout : status::compile_error;
        each.why = found->second.error;
      } else if (found->second.spill_bytes > 0 && each.state == status::untried) {
        each.state = status::spilled;
        each.why = std::to_string(found->second.spill_bytes) + " bytes of registers spilled";
      }
    }
    const bool compiled = complete && each.state != status::compile_error && each.state != status::compile_timeout;
    work.counts.compiled += compiled ? 1 : 0;
    // `ok` stands for "may be gated" from here on.
    if (complete && each.state == status::untried) each.state = status::ok;
    if (failed(each)) {
      log.add({{"key", compile_key(work, each.values)}, {"phase", "compile"}, {"cols", work.cols()},
               {"config", config_json(*work.of, each.values)}, {"state", token(each.state)}, {"why", each.why}});
    }
  }
}

std::string compile_key(const group& work, const config& values) {
  return content_key("compile cols=" + std::to_string(work.cols()) + " " + config_text(*work.of, values));
}

void print_failures(const group& work) {
  std::map<status, std::pair<int, const candidate*>> failures;
  for (const auto& each : work.candidates) {
    if (!failed(each)) continue;
    auto& entry = failures[each.state];
    if (entry.first++ == 0) entry.second = &each;
  }
  for (const auto& [state, entry] : failures) {
    std::printf("  %d %s, e.g. %s: %s\n", entry.first, token(state), config_text(*work.of, entry.second->values).c_str(),
                entry.second->why.c_str());
  }
}

std::vector<shape_result> tune_group(group& work, worker_session& on, journal& log, const std::map<std::string, image>& images,
                                     deadline end, bool limited) {
  std::vector<image> mine;
  std::set<std::string> seen;
  for (const auto& types : work.types) {
    for (const auto& type : types) {
      const auto found = images.find(type);
      if (found != images.end() && seen.insert(type).second) mine.push_back(found->second);
    }
  }
  on.open(*work.kernel, work.shapes.front().at, mine);
  return group_tuner(work, on, log, end, limited).tune();
}

}  // namespace capstone::tools
