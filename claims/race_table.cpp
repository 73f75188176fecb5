// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/race_table.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>

#include "claims/table.hpp"

namespace capstone::claims {
namespace {

/// The races that count, each with its device.
std::vector<std::pair<std::string, const comparison*>> latest(const std::vector<session_record>& sessions) {
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, const comparison*> found;
  for (const session_record& session : sessions)  // sorted by date
    for (const comparison& c : session.comparisons)
      if (c.is_race() && !c.is_void())
        found[{session.device.id, c.kernel, c.dtype, c.what.shape, c.what.layout}] = &c;
  std::vector<std::pair<std::string, const comparison*>> list;
  for (const auto& [key, c] : found) list.emplace_back(std::get<0>(key), c);
  return list;
}

}  // namespace

std::vector<peer_score> scores_of(const std::vector<session_record>& sessions) {
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, peer_score> found;
  for (const auto& [device, c] : latest(sessions))
    for (const arm_row& arm : c->arms) {
      if (!arm.speedup || arm.name == twin_name) continue;
      const std::string suite = c->suite.empty() ? "-" : c->suite;
      auto [at, is_new] = found.insert({{device, c->kernel, c->dtype, suite, arm.name}, {}});
      peer_score& s = at->second;
      if (is_new) s = {device, c->kernel, c->dtype, suite, arm.name, 0, 0, 0, 0, ""};
      const std::string verdict = arm.name == floor_name ? floor_verdict(*c) : fast_verdict(*arm.speedup, *c);
      ++(verdict == "CONFIRMED" ? s.wins : verdict == "REFUTED" ? s.losses : s.ties);
      if (is_new || arm.speedup->median < s.worst) {
        s.worst = arm.speedup->median;
        s.worst_shape = c->what.shape;
      }
    }
  std::vector<peer_score> list;
  for (const auto& [key, s] : found) list.push_back(s);
  std::stable_sort(list.begin(), list.end(), [](const peer_score& a, const peer_score& b) {
    return std::tie(a.device, a.kernel, a.dtype) != std::tie(b.device, b.kernel, b.dtype)
               ? std::tie(a.device, a.kernel, a.dtype) < std::tie(b.device, b.kernel, b.dtype)
           : a.losses != b.losses ? a.losses > b.losses
                                  : a.worst < b.worst;
  });
  return list;
}

std::string race_markdown(const std::vector<session_record>& sessions) {
  std::string text;
  const peer_score* before = nullptr;
  const std::vector<peer_score> scores = scores_of(sessions);
  for (const peer_score& s : scores) {
    if (before == nullptr || std::tie(before->device, before->kernel, before->dtype) != std::tie(s.device, s.kernel, s.dtype))
      text += "\n### Race on " + s.device + ": " + s.kernel + ", " + s.dtype +
              "\n\nThe most losses first. Ratios are peer / capstone; against the floor a win is its target met.\n\n"
              "| suite | against | losses | ties | wins | worst ratio | at |\n|---|---|---|---|---|---|---|\n";
    before = &s;
    char ratio[32];
    std::snprintf(ratio, sizeof ratio, "%.3f", s.worst);
    const std::string losses = std::to_string(s.losses);
    text += "| " + s.suite + " | " + s.peer + " | " + (s.losses > 0 ? "**" + losses + "**" : losses) + " | " +
            std::to_string(s.ties) + " | " + std::to_string(s.wins) + " | " + ratio + " | " + s.worst_shape + " |\n";
  }
  std::map<std::pair<std::string, std::string>, std::set<std::string>> absent;  // peer and reason: where
  for (const auto& [device, c] : latest(sessions))
    for (const absent_peer& p : c->absent) absent[{p.name, p.reason}].insert(c->kernel + " " + c->dtype + " " + c->what.shape);
  if (!absent.empty()) text += "\nNot raced:\n\n";
  for (const auto& [peer, where] : absent)
    text += "- " + peer.first + " (" + (where.size() == 1 ? *where.begin() : std::to_string(where.size()) + " problems") +
            "): " + peer.second + "\n";
  return text;
}

}  // namespace capstone::claims
