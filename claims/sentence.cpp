// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/sentence.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "claims/table.hpp"

namespace capstone::claims {
namespace {

constexpr double slowed = 1.15;        // against the floor, between sessions; the A/A band is 0.5 %
constexpr double steady_clock = 0.97;  // least over most of the SM clock within one comparison
constexpr const char* unfused_name = "unfused";

struct shape_of_race {
  const comparison* c = nullptr;
  const arm_row* arm = nullptr;
};

std::string number(double x) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g", x);
  return text;
}

/// "rows=4096,cols=8192" as 4096x8192.
std::string short_shape(const problem_id& what) {
  std::string text;
  bool value = false;
  for (const char ch : what.shape) {
    if (ch == '=') value = true;
    else if (ch == ',') value = false, text += 'x';
    else if (value) text += ch;
  }
  return text;
}

std::string list_of(const std::vector<shape_of_race>& all) {
  std::string text;
  for (const shape_of_race& s : all) text += (text.empty() ? "" : ", ") + short_shape(s.c->what);
  return text;
}

/// "by 1.30 [1.29, 1.31] at 1x4096 to 4.10 [4.00, 4.20] at ..."
std::string range_of(std::vector<shape_of_race> all) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.arm->speedup->median < b.arm->speedup->median; });
  const auto one = [](const shape_of_race& s) {
    const ratio_band& r = *s.arm->speedup;
    return number(r.median) + " [" + number(r.low) + ", " + number(r.high) + "] at " + short_shape(s.c->what);
  };
  return all.size() == 1 ? one(all[0]) : one(all.front()) + " to " + one(all.back());
}

bool is_verified(const comparison& c, const std::string& device, const std::vector<verify_record>& records) {
  bool found = false;
  for (const verify_record& r : records) {
    if (r.kernel != c.kernel || r.dtype != c.dtype || r.device.id != device) continue;
    for (const verified& v : r.problems)
      if (v.what == c.what && v.config == c.config) {
        if (!v.passed()) return false;
        found = true;
      }
  }
  return found;
}

std::string sentence(std::vector<shape_of_race> races, const std::vector<std::string>& unclaimed, const std::string& baseline,
                     const std::string& version, const std::vector<const prediction*>& predicted) {
  std::sort(races.begin(), races.end(), [](const auto& a, const auto& b) { return a.c->bytes < b.c->bytes; });
  std::vector<shape_of_race> faster, equal, slower;
  const comparison *largest_not_faster = nullptr, *smallest_faster = nullptr;
  for (const shape_of_race& s : races) {
    const std::string verdict = fast_verdict(*s.arm->speedup, *s.c);
    (verdict == "CONFIRMED" ? faster : verdict == "REFUTED" ? slower : equal).push_back(s);
    if (verdict != "CONFIRMED") largest_not_faster = s.c;
    if (verdict == "CONFIRMED" && smallest_faster == nullptr) smallest_faster = s.c;
  }
  std::string text = "Supports: ";
  if (faster.empty()) text += "no claim to be faster than " + baseline + " (" + version + ")";
  else text += "faster than " + baseline + " (" + version + ") on " + list_of(faster) + ", by " + range_of(faster);
  if (!equal.empty()) text += "; within the band on " + list_of(equal);
  if (!slower.empty()) text += "; slower on " + list_of(slower) + ", by " + range_of(slower);
  if (!faster.empty() && largest_not_faster != nullptr) {
    if (largest_not_faster->bytes < smallest_faster->bytes)
      text += "; crossover between " + short_shape(largest_not_faster->what) + " and " + short_shape(smallest_faster->what);
    else text += "; no single crossover by size";
  } else {
    text += "; no crossover within these shapes";
  }
  if (!predicted.empty()) {
    // The launch's share of the time of the smallest shape, as predicted.
    const prediction* smallest = *std::min_element(predicted.begin(), predicted.end(), [](const auto* a, const auto* b) { return a->expected_us < b->expected_us; });
    double launch = 0;
    for (const time_term& t : smallest->terms)
      if (t.name == "launch") launch = t.us;
    text += "; launch is predicted to dominate below " + number(double(smallest->launch_dominates_below_bytes) / 1e6) + " MB moved, where it is up to " +
            number(100 * std::min(1.0, launch / smallest->expected_us)) + " % of the time (" + short_shape(smallest->what) + ")";
  }
  text += ".";
  for (const std::string& why : unclaimed) text += " No claim on " + why + ".";
  return text + " Does not support: 'faster'.";
}

}  // namespace

std::string why_no_claim(const comparison& c, const arm_row& baseline, const std::vector<session_record>& sessions,
                         const std::string& device) {
  if (c.is_void()) return "the comparison is void: the A/A twin differs";
  if (c.timer == "host") return "the host's times claim nothing";
  if (baseline.version.empty()) return "the baseline " + baseline.name + " has no version";
  if (c.sm_mhz.size() == 3 && double(c.sm_mhz[0]) < steady_clock * double(c.sm_mhz[2]))
    return "the SM clock moved from " + std::to_string(c.sm_mhz[0]) + " to " + std::to_string(c.sm_mhz[2]) + " MHz (throttled)";
  const arm_row* floor = c.find(floor_name);
  if (floor == nullptr || floor->ms <= 0) return "";
  const double ratio = baseline.ms / floor->ms;
  for (const session_record& session : sessions) {
    if (session.device.id != device) continue;
    for (const comparison& other : session.comparisons) {
      if (&other == &c || other.kernel != c.kernel || other.dtype != c.dtype || !(other.what == c.what) || other.is_void()) continue;
      const arm_row *arm = other.find(baseline.name), *its_floor = other.find(floor_name);
      if (arm == nullptr || its_floor == nullptr || arm->version != baseline.version) continue;
      if (ratio > slowed * arm->ms / its_floor->ms)
        return "the baseline " + baseline.name + " took " + number(ratio) + " floors and " + number(arm->ms / its_floor->ms) + " in session " +
               session.run.session + " (slowed baseline)";
    }
  }
  return "";
}

std::vector<speed_sentence> speed_sentences(const std::vector<session_record>& sessions, const std::vector<verify_record>& verified,
                                            const std::vector<prediction>& predictions) {
  // The latest comparison of each shape that allows a claim, else the reason of the latest.
  struct group {
    std::map<std::string, shape_of_race> races;
    std::map<std::string, std::string> unclaimed;
    std::string version;
  };
  std::map<std::tuple<std::string, std::string, std::string, bool, std::string>, group> groups;
  for (const session_record& session : sessions)
    for (const comparison& c : session.comparisons)
      for (const arm_row& arm : c.arms) {
        if (!arm.speedup || arm.name == twin_name || arm.name == floor_name) continue;
        group& g = groups[{session.device.id, c.kernel, c.dtype, arm.name == unfused_name, arm.name}];
        std::string why = why_no_claim(c, arm, sessions, session.device.id);
        if (why.empty() && !is_verified(c, session.device.id, verified)) why = "it is not verified with this config";
        if (!why.empty()) {
          if (g.races.count(c.what.shape) == 0) g.unclaimed[c.what.shape] = short_shape(c.what) + ": " + why;
          continue;
        }
        g.unclaimed.erase(c.what.shape);
        g.races[c.what.shape] = {&c, &arm};
        g.version = arm.version;
      }
  std::vector<speed_sentence> all;
  for (const auto& [key, g] : groups) {
    const auto& [device, kernel, dtype, unfused, baseline] = key;
    std::vector<shape_of_race> races;
    for (const auto& [shape, s] : g.races) races.push_back(s);
    std::vector<std::string> unclaimed;
    for (const auto& [shape, why] : g.unclaimed) unclaimed.push_back(why);
    std::vector<const prediction*> predicted;
    for (const prediction& p : predictions)
      if (p.kernel == kernel && p.dtype == dtype && p.device.id == device) predicted.push_back(&p);
    all.push_back({device, kernel, dtype, baseline, !unfused, sentence(races, unclaimed, baseline, g.version, predicted)});
  }
  return all;
}

}  // namespace capstone::claims
