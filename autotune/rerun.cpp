// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/rerun.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "autotune/check.hpp"
#include "autotune/compare.hpp"
#include "autotune/emit.hpp"
#include "autotune/group.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"
#include "core/shapes.hpp"
#include "core/stats.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr int rounds = 40, host_rounds = 15;
constexpr double sample_us = 500;

/// One row count of an entry, as it was frozen.
struct frozen_shape {
  problem at;
  config frozen;
  std::vector<config> ties;
  std::optional<config> other;  ///< the choice of the other tree
  run_off evidence;
};

/// One column count of a file.
struct frozen_group {
  std::string path;
  group work;
  std::vector<frozen_shape> shapes;
};

bool wanted(const rerun_request& request, const frozen_config& file, const device& where) {
  const auto named = request.kernels.empty() ||
                     std::find(request.kernels.begin(), request.kernels.end(), file.kernel) != request.kernels.end();
  const auto limits = limits_of(file.device);
  return named && (request.dtype.empty() || request.dtype == file.dtype) && file.device.id == where.id &&
         limits.sms == where.limits.sms && limits.l2_bytes == where.limits.l2_bytes;
}

void refuse_stale(const std::string& path, const frozen_config& file, const op& of) {
  const auto now = source_fingerprint(source_root(), of.header);
  if (now == file.source) return;
  throw record_error(path + ": stale, the source of " + of.header + " changed since it was tuned (then " + file.source + ", now " +
                     now + "); tune again: " + tune_command(file));
}

void add_candidate(group& work, const device& where, const config& values) {
  for (const auto& each : work.candidates) {
    if (each.values == values) return;
  }
  work.candidates.push_back({values});
  work.types.push_back(types_of(work, where, values));
}

std::optional<config> choice_in(const std::vector<config_file>& files, const op& of, const frozen_config& like, const problem& at) {
  for (const auto& [path, file] : files) {
    if (file.kernel != like.kernel || file.dtype != like.dtype || file.device.id != like.device.id) continue;
    refuse_stale(path, file, of);
    for (const auto& cols : file.cols) {
      if (cols.lo > at.shape[1] || cols.hi < at.shape[1]) continue;
      for (const auto& rows : cols.rows) {
        if (rows.lo <= at.shape[0] && (rows.hi == 0 || at.shape[0] <= rows.hi)) return config_from(of, cols.reduction, rows.schedule);
      }
    }
  }
  return std::nullopt;
}

std::vector<frozen_group> frozen_groups(const rerun_request& request, const device& where) {
  std::vector<frozen_group> found;
  for (const auto& of : registry()) {
    std::vector<config_file> others;
    if (!request.against.empty()) others = read_configs(request.against, of);
    for (const auto& [path, file] : read_configs(request.tree, of)) {
      if (!wanted(request, file, where)) continue;
      refuse_stale(path, file, of);
      for (const auto& cols : file.cols) {
        frozen_group mine{path, {&of, find_kernel(file.kernel, file.dtype).second, {}, {}, {}, {}, {}}, {}};
        for (const auto& rows : cols.rows) {
          problem at;
          at.shape = {rows.measured_rows, cols.hi};
          const bool asked = request.problems.empty() || std::any_of(request.problems.begin(), request.problems.end(),
                                                                     [&](const problem& p) { return p.shape == at.shape; });
          if (!asked) continue;
          frozen_shape shape{at, config_from(of, cols.reduction, rows.schedule), {}, choice_in(others, of, file, at), rows.evidence};
          for (const auto& tie : rows.evidence.ties) shape.ties.push_back(config_from_text(of, tie));
          mine.work.shapes.push_back({at, {}});
          mine.shapes.push_back(std::move(shape));
        }
        for (const auto& shape : mine.shapes) {
          add_candidate(mine.work, where, mine.work.kernel->default_config(shape.at));
          add_candidate(mine.work, where, shape.frozen);
          for (const auto& tie : shape.ties) add_candidate(mine.work, where, tie);
          if (shape.other) add_candidate(mine.work, where, *shape.other);
        }
        if (!mine.shapes.empty()) found.push_back(std::move(mine));
      }
    }
  }
  if (found.empty()) {
    throw record_error(request.tree + ": no frozen entry is for " + where.id + " and what was asked for; expected one to run again");
  }
  return found;
}

/// The groups of a request on an open device, each opened in turn.
int for_each_group(const rerun_request& request, const std::function<bool(frozen_group&, worker_session&)>& run) {
  worker_session session(request.device, request.how);
  const auto& where = session.where();
  std::printf("device %s (%s)\n", where.id.c_str(), where.name.c_str());
  if (session.other_processes() > 0) {
    std::fprintf(stderr, "autotune: %d other processes compute on the GPU: times will scatter\n", session.other_processes());
  }
  auto groups = frozen_groups(request, where);
  std::vector<group*> all;
  for (auto& each : groups) all.push_back(&each.work);
  const scratch_folder scratch((fs::path(request.out) / ".autotune").string());
  std::map<std::string, image> images;
  for (const auto& [header, types] : types_by_header(all)) {
    images.merge(compile_all({source_root(), header, where.limits.cc, scratch.path(), request.how.program}, types, request.jobs,
                             deadline::max(), [] {}));
  }
  bool good = true;
  for (auto& each : groups) {
    std::vector<image> mine;
    for (const auto& types : each.work.types) {
      for (const auto& type : types) mine.push_back(images.at(type));
    }
    session.open(*each.work.kernel, each.work.shapes.front().at, mine);
    good = run(each, session) && good;
  }
  return good ? exit_ok : exit_invalid;
}

std::string label(const group& work, const problem& at) {
  return work.kernel->name() + " " + work.kernel->dtype + " " + format_shape(at.shape);
}

/// What a ratio of old to new time says: above 1 the new one is faster.
std::string words(const comparison& gain) {
  char text[96];
  const char* what = gain.slower() ? "faster" : gain.faster() ? "slower" : "within the band";
  std::snprintf(text, sizeof text, "%.3f [%.3f, %.3f], %s", gain.ratio, gain.low, gain.high, what);
  return text;
}

json band_json(const comparison& of) { return {of.ratio, of.low, of.high}; }

struct agreement {
  int entries = 0, same = 0, tied = 0, different = 0;
  int twins = 0, twins_different = 0;
};

/// Races one shape; returns whether nothing drifted.
bool rerun_shape(const rerun_request& request, const frozen_group& mine, const frozen_shape& shape, worker_session& on,
                 agreement& count, json& entries) {
  const auto& of = *mine.work.of;
  const auto name = label(mine.work, shape.at);
  json entry = {{"kernel", mine.work.kernel->name()}, {"dtype", mine.work.kernel->dtype}, {"shape", shape.at.shape},
                {"config", config_text(of, shape.frozen)}};
  const auto refused = [&](const verdict& found) {
    std::printf("%s: %s: %s\n", name.c_str(), token(found.state), found.why.c_str());
    entry["state"] = token(found.state), entry["why"] = found.why;
    entries.push_back(entry);
    return false;
  };
  if (const auto opened = on.open_shape(shape.at); opened.state != status::ok) return refused(opened);
  std::vector<std::optional<config>> arms = {std::nullopt, std::nullopt, shape.frozen};
  for (const auto& tie : shape.ties) arms.emplace_back(tie);
  const bool differs = shape.other && *shape.other != shape.frozen;
  std::size_t other = arms.size();
  if (differs) {
    const auto known = std::find(arms.begin(), arms.end(), shape.other);
    other = std::size_t(known - arms.begin());
    if (known == arms.end()) arms.push_back(shape.other);
  }
  const auto times = on.time(arms, on.where().is_host() ? host_rounds : rounds, sample_us);
  if (times.result.state != status::ok) return refused(times.result);
  const auto& frozen_us = times.us[2];
  const double now_us = median(frozen_us), then_us = shape.evidence.median_us;
  const auto gain = compare(times.us[0], frozen_us);
  const bool slower = gain.faster();  // the default
  const double share = gain.ratio / shape.evidence.vs_default;
  const bool drifted = slower || std::fabs(share - 1) > request.tolerance || std::fabs(now_us / then_us - 1) > request.tolerance;
  std::printf("%s: %.4g us, recorded %.4g (%.3f); %.3f x default [%.3f, %.3f], recorded %.3f%s\n", name.c_str(), now_us, then_us,
              now_us / then_us, gain.ratio, gain.low, gain.high, shape.evidence.vs_default,
              slower ? "; SLOWER than the default schedule" : drifted ? "; drifted" : "");
  entry["state"] = drifted ? "drifted" : "ok";
  entry["median_us"] = {now_us, then_us}, entry["vs_default"] = band_json(gain), entry["recorded_vs_default"] = shape.evidence.vs_default;
  ++count.twins, count.twins_different += compare(times.us[0], times.us[1]).different();
  for (std::size_t i = 0; i < shape.ties.size(); ++i) {
    const auto tie = compare(frozen_us, times.us[3 + i], shape.ties.size());
    if (tie.different()) {
      std::printf("  recorded as tied, now %s: %s\n", words(tie).c_str(), config_text(of, shape.ties[i]).c_str());
    }
  }
  if (shape.other) {
    ++count.entries;
    if (!differs) {
      ++count.same, entry["against"] = "same";
    } else {
      const auto ratio = compare(frozen_us, times.us[other]);
      const bool proven = ratio.different();
      ++(proven ? count.different : count.tied);
      entry["against"] = proven ? "different" : "tied", entry["against_config"] = config_text(of, *shape.other);
      entry["against_ratio"] = band_json(ratio);
      std::printf("  the other tree's %s: %s\n", config_text(of, *shape.other).c_str(), words(ratio).c_str());
    }
  }
  entries.push_back(entry);
  return !drifted;
}

}  // namespace

config config_from_text(const op& of, const std::string& text) {
  config_values reduction, schedule;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const auto name = word.substr(0, equals);
    const auto known = std::find_if(of.axes.begin(), of.axes.end(), [&](const axis& each) { return each.name == name; });
    if (equals == std::string::npos || known == of.axes.end()) {
      throw std::invalid_argument("config is '" + text + "'; expected axis=value words of " + of.name + ", not '" + word + "'");
    }
    (known->belongs == part::reduction ? reduction : schedule).emplace_back(name, word.substr(equals + 1));
  }
  return config_from(of, reduction, schedule);
}

int verify_frozen(const rerun_request& request) {
  int passed = 0, failed = 0;
  const int code = for_each_group(request, [&](frozen_group& mine, worker_session& on) {
    bool good = true;
    const auto report = [&](const problem* at, const config& values, const verdict& found) {
      (found.state == status::ok ? passed : failed) += 1;
      if (found.state == status::ok) return;
      good = false;
      std::printf("%s: %s: %s: %s\n", at == nullptr ? mine.work.name().c_str() : label(mine.work, *at).c_str(),
                  config_text(*mine.work.of, values).c_str(), token(found.state), found.why.c_str());
    };
    std::vector<config> gated;
    for (const auto& shape : mine.shapes) {
      if (std::find(gated.begin(), gated.end(), shape.frozen) == gated.end()) {
        gated.push_back(shape.frozen);
        report(nullptr, shape.frozen, on.gate(shape.frozen));
      }
      auto found = on.open_shape(shape.at);
      if (found.state == status::ok) found = on.check(shape.frozen);
      report(&shape.at, shape.frozen, found);
    }
    std::printf("%s: %zu configs at %zu row counts %s\n", mine.work.name().c_str(), gated.size(), mine.shapes.size(), good ? "ok" : "FAILED");
    return good;
  });
  std::printf("%d checks passed, %d failed\n", passed, failed);
  return code;
}

int rerun(const rerun_request& request) {
  agreement count;
  json entries = json::array();
  device where;
  const int code = for_each_group(request, [&](frozen_group& mine, worker_session& on) {
    where = on.where();
    bool good = true;
    for (const auto& shape : mine.shapes) good = rerun_shape(request, mine, shape, on, count, entries) && good;
    return good;
  });
  std::printf("%zu entries run again, tolerance %.3g; identical kernels were called different in %d of %d races\n", entries.size(),
              request.tolerance, count.twins_different, count.twins);
  if (!request.against.empty()) {
    std::printf("the other tree: %d entries, %d with the same config, %d within the band, %d different\n", count.entries, count.same,
                count.tied, count.different);
  }
  const auto run = this_run();
  const json record = {{"schema", "capstone-rerun/1"}, {"date", run.date}, {"commit", run.commit}, {"dirty", run.dirty},
                       {"device", {{"id", where.id}, {"name", where.name}, {"driver", where.driver}}}, {"toolkit", run.toolkit},
                       {"simulated", request.how.simulated}, {"tolerance", request.tolerance}, {"rounds", rounds}, {"band", tie_band},
                       {"twins", {{"races", count.twins}, {"different", count.twins_different}}},
                       {"against", {{"entries", count.entries}, {"same", count.same}, {"tied", count.tied}, {"different", count.different}}},
                       {"entries", entries}};
  const auto path = (fs::path(request.out) / ".autotune/rerun.json").string();
  atomic_write(path, record.dump(2) + "\n");
  std::printf("wrote %s\n", path.c_str());
  return code;
}

}  // namespace capstone::tools
