// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/explain.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "autotune/check.hpp"
#include "autotune/journal.hpp"
#include "autotune/space.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"
#include "core/shapes.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

bool same(const device_limits& a, const device_limits& b) {
  return a.cc == b.cc && a.sms == b.sms && a.l2_bytes == b.l2_bytes;
}

std::string range_text(std::int64_t lo, std::int64_t hi) {
  if (hi == 0) return std::to_string(lo) + " and more";
  return lo == hi ? std::to_string(lo) : std::to_string(lo) + " to " + std::to_string(hi);
}

std::string values_text(const config_values& values) {
  std::string text;
  for (const auto& [name, value] : values) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

void print_space(const op& of, const kernel_spec& kernel, const problem& at, const device_limits& limits) {
  const auto made = make_space(of, kernel, at, limits);
  std::printf("candidates: %zu declared, %zu left by the rules\n", made.declared, made.candidates.size());
  for (const auto& [reason, count] : made.pruned) {
    if (count > 0) std::printf("  %zu pruned: %s\n", count, reason.c_str());
  }
}

/// What became of the candidates of this column count, from the journals below the tree.
void print_journal(const std::string& tree, const kernel_spec& kernel, const problem& at) {
  std::map<std::string, std::pair<int, std::string>> failures;  // by state: how many, an example
  std::size_t finalists = 0;
  int timed = 0;
  bool found = false;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(tree) / ".autotune", ignored)) {
    if (entry.path().extension() != ".jsonl") continue;
    json header;
    for (const auto& line : read_journal(entry.path().string())) {
      if (!line.contains("key")) header = line;
      if (header.value("kernel", "") != kernel.config_name() || header.value("dtype", "") != kernel.dtype) break;
      const auto phase = line.value("phase", "");
      if (line.value("cols", std::int64_t{0}) == at.shape[1] && line.contains("state") && line["state"] != token(status::ok)) {
        auto& mine = failures[line["state"].get<std::string>()];
        if (mine.first++ == 0) mine.second = line.value("why", "");
        found = true;
      }
      if (phase == "screen" && line.at("shape") == json(at.shape)) ++timed, found = true;
      if (phase == "run_off" && line.at("shape") == json(at.shape)) finalists = line.at("arms").size(), found = true;
    }
  }
  if (!found) {
    std::printf("the search's journal is not below %s/.autotune; what failed how is in the file's provenance, in sum\n", tree.c_str());
    return;
  }
  for (const auto& [state, mine] : failures) {
    std::printf("  %d %s at these columns, e.g. %s\n", mine.first, state.c_str(), mine.second.c_str());
  }
  std::printf("  %d timings in the screening, %zu finalists in the run-off\n", timed, finalists);
}

}  // namespace

lookup look_up(const std::vector<config_file>& files, const kernel_spec& kernel, const device_limits& where,
               std::int64_t rows, std::int64_t cols) {
  for (const bool same_device : {true, false}) {
    for (const bool exact : {true, false}) {
      for (const auto& file : files) {
        const auto& [path, config] = file;
        const auto limits = limits_of(config.device);
        if (config.kernel != kernel.config_name() || config.dtype != kernel.dtype) continue;
        if (same_device ? !same(limits, where) : limits.cc != where.cc) continue;
        for (const auto& entry : config.cols) {
          if (cols < entry.lo || cols > entry.hi || (exact && entry.lo != entry.hi)) continue;
          lookup found{same_device ? "range" : "other_device", &file, &entry, nullptr};
          for (const auto& each : entry.rows) {
            if (rows < each.lo || (each.hi != 0 && rows > each.hi)) continue;
            found.rows = &each;
            if (same_device && exact && rows == each.measured_rows) found.match = "exact";
            break;
          }
          return found;
        }
      }
    }
  }
  return {};
}

bool explain(const std::string& tree, const op& of, const kernel_spec& kernel, const problem& at, const device& where) {
  const auto files = read_configs(tree, of);
  const auto found = look_up(files, kernel, where.limits, at.shape[0], at.shape[1]);
  std::printf("%s %s %s on %s\n", kernel.name().c_str(), kernel.dtype.c_str(), format_shape(at.shape).c_str(), where.name.c_str());
  if (!kernel.configs_of.empty()) std::printf("uses the configs of %s\n", kernel.configs_of.c_str());
  if (found.cols == nullptr) {
    std::string known;
    for (const auto& [path, config] : files) {
      if (config.kernel != kernel.config_name() || config.dtype != kernel.dtype) continue;
      for (const auto& entry : config.cols) known += " " + range_text(entry.lo, entry.hi);
      known += " (" + path + ")";
    }
    std::printf("match: none. No entry has cols %lld for sm_%d;%s\n", static_cast<long long>(at.shape[1]), where.limits.cc,
                known.empty() ? " no file is of this kernel and dtype" : (" there are" + known).c_str());
    std::printf("it runs the default: %s\ntune it: autotune --kernel %s --dtype %s --shape %s\n",
                config_text(of, kernel.default_config(at)).c_str(), kernel.config_name().c_str(), kernel.dtype.c_str(),
                format_shape(at.shape).c_str());
    print_space(of, kernel, at, where.limits);
    return false;
  }
  const auto& [path, config] = *found.file;
  std::printf("match: %s, from %s\n", found.match.c_str(), path.c_str());
  if (found.match == "other_device") {
    std::printf("tuned on %s (%s SMs %lld, L2 %lld bytes), none of this GPU has these columns\n", config.device.name.c_str(),
                config.device.id.c_str(), static_cast<long long>(config.device.sms), static_cast<long long>(config.device.l2_bytes));
  }
  std::printf("reduction: cols %s: %s; it costs at worst %.3f of the best reduction's time, at rows %lld\n",
              range_text(found.cols->lo, found.cols->hi).c_str(), values_text(found.cols->reduction).c_str(),
              found.cols->invariance_worst, static_cast<long long>(found.cols->invariance_at_rows));
  if (found.rows == nullptr) {
    std::printf("schedule: no entry has rows %lld, so it takes the run-time path with this reduction\n", static_cast<long long>(at.shape[0]));
    return false;
  }
  const auto& e = found.rows->evidence;
  std::printf("schedule: rows %s, measured at %lld: %s\n", range_text(found.rows->lo, found.rows->hi).c_str(),
              static_cast<long long>(found.rows->measured_rows), values_text(found.rows->schedule).c_str());
  std::printf("run-off: %.4g us [%.4g, %.4g] over %lld rounds, %.3f x the default schedule; %zu tied with it\n", e.median_us,
              e.ci_low_us, e.ci_high_us, static_cast<long long>(e.rounds), e.vs_default, e.ties.size());
  for (const auto& tie : e.ties) std::printf("  tied: %s\n", tie.c_str());
  if (const auto now = source_fingerprint(source_root(), of.header); now != config.source) {
    std::printf("stale: the source of %s has changed since (then %s, now %s); tune again: %s\n", of.header.c_str(),
                config.source.c_str(), now.c_str(), tune_command(config).c_str());
  }
  auto measured = at;
  measured.shape[0] = found.rows->measured_rows;
  print_space(of, kernel, measured, limits_of(config.device));
  print_journal(tree, kernel, measured);
  return true;
}

}  // namespace capstone::tools
