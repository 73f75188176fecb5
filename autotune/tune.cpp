// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/tune.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>

#include "autotune/compile.hpp"
#include "autotune/emit.hpp"
#include "autotune/freeze.hpp"
#include "autotune/group.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

std::string cc_text(const device_limits& limits) {
  return std::to_string(limits.cc / 10) + "." + std::to_string(limits.cc % 10);
}

frozen_config new_file(const group& work, const device& where, std::uint64_t seed) {
  frozen_config file;
  file.kernel = work.kernel->name();
  file.source = source_fingerprint(source_root(), work.of->header);
  file.axes = axes_fingerprint(*work.of);
  file.dtype = work.kernel->dtype;
  file.device = {where.id, where.name, cc_text(where.limits), where.limits.sms,
                 where.limits.l2_bytes, where.driver};
  file.toolchain = {CAPSTONE_CUDA_VERSION, compile_flags(where.limits.cc)};
  const auto context = this_run();
  file.provenance.git = context.commit;
  file.provenance.dirty = context.dirty;
  file.provenance.seed = static_cast<std::int64_t>(seed);
  return file;
}

void add_counts(candidate_counts& to, const candidate_counts& from) {
  to.declared += from.declared;
  to.pruned += from.pruned;
  to.compiled += from.compiled;
  to.compile_error += from.compile_error;
  to.spilled += from.spilled;
  to.wrong += from.wrong;
  to.crashed += from.crashed;
  to.implausible += from.implausible;
  to.timed += from.timed;
}

std::vector<config> configs_in(const op& of, const frozen_config& file) {
  std::vector<config> found;
  for (const auto& cols : file.cols) {
    for (const auto& rows : cols.rows) {
      found.push_back(config_from(of, cols.reduction, rows.schedule));
    }
  }
  return found;
}

void print_entry(const group& work, const cols_entry& entry) {
  std::string reduction;
  for (const auto& [name, value] : entry.reduction) reduction += " " + name + "=" + value;
  std::printf("%s:%s, at worst %.3f of the best reduction's time (rows %lld)\n",
              work.name().c_str(), reduction.c_str(), entry.invariance_worst,
              static_cast<long long>(entry.invariance_at_rows));
  for (const auto& rows : entry.rows) {
    std::string schedule;
    for (const auto& [name, value] : rows.schedule) schedule += " " + name + "=" + value;
    std::printf("  %lldx%lld: %.2f us [%.2f, %.2f], %.3f x default;%s; %zu ties\n",
                static_cast<long long>(rows.measured_rows), static_cast<long long>(entry.hi),
                rows.evidence.median_us, rows.evidence.ci_low_us, rows.evidence.ci_high_us,
                rows.evidence.vs_default, schedule.c_str(), rows.evidence.ties.size());
    if (rows.evidence.vs_default < 1 / tie_band) {
      std::printf("  this is slower than the untuned path: more candidates (--budget, "
                  "--max-candidates) may do better\n");
    }
  }
}

/// Keeps other runs from merging into the same tree until it goes: read, merge and write are one step.
class tree_lock {
 public:
  explicit tree_lock(const std::string& tree) {
    fs::create_directories(fs::path(tree) / "configs");
    file_ = open((fs::path(tree) / "configs/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0 || flock(file_, LOCK_EX) != 0) {
      throw std::runtime_error("out is " + tree + "; expected a folder whose configs/.lock can be locked");
    }
  }
  ~tree_lock() { close(file_); }
  tree_lock(const tree_lock&) = delete;
  tree_lock& operator=(const tree_lock&) = delete;

 private:
  int file_ = -1;
};

// Writes after every group, so that what is measured is kept whatever comes after.
void freeze_group(const tune_request& request, const group& work,
                  const std::vector<shape_result>& results, const frozen_config& file) {
  const tree_lock lock(request.out);
  const auto path = (fs::path(request.out) / config_path(file)).string();
  std::vector<std::string> notes;
  std::optional<frozen_config> before;
  if (fs::exists(path)) before = read_config(path);
  auto fresh = file;
  fresh.cols.clear();
  std::vector<config> elsewhere;
  if (before) {
    // Only what survives the merge: values of other axes would not even convert.
    auto kept = merge(fresh, *before, notes);
    std::erase_if(kept.cols, [&](const auto& c) { return c.lo == work.cols(); });
    elsewhere = configs_in(*work.of, kept);
    notes.clear();
  }
  const auto entry = freeze_cols(*work.of, work.cols(), results, elsewhere);
  fresh.cols.push_back(entry);
  if (before) fresh = merge(fresh, *before, notes);
  atomic_write(path, write_config(fresh));
  print_entry(work, entry);
  for (const auto& note : notes) std::printf("%s: %s\n", path.c_str(), note.c_str());
  const auto table = write_table(request.out, work.of->name, request.table);
  std::printf("wrote %s and %s\n", path.c_str(), table.c_str());
}

}  // namespace

std::string write_table(const std::string& tree, const std::string& op_name,
                        const std::string& table) {
  for (const auto& each : registry()) {
    if (each.name != op_name) continue;
    const auto path = table_path(tree, each, table);
    atomic_write(path, emit_table(each, read_configs(tree, each), table));
    return path;
  }
  throw std::invalid_argument("op is '" + op_name + "'; expected one that a spec declares");
}

device_limits limits_of_arch(int cc) {
  switch (cc) {
    case 80: return {80, 108, 40 << 20};
    case 90: return {90, 132, 60 << 20};
    case 100: return {100, 148, 126 << 20};
    case 120: return {120, 188, 96 << 20};
    default: return {cc, 100, 40 << 20};
  }
}

int tune(const tune_request& request) {
  const auto begin = clock::now();
  device where;
  const auto no_gpu = request.device == "host" ? "" : why_no_gpu();
  if (no_gpu.empty()) {
    where = open_device(request.device);
  } else if (request.dry_run) {
    where.id = where.name = "sm_90, assumed";
    where.limits = limits_of_arch(90);
    where.ordinal = 0;
  } else {
    std::fprintf(stderr, "autotune: %s; `autotune --device host` tunes on the host, as a self-test "
                         "of the pipeline.\n", no_gpu.c_str());
    return exit_no_device;
  }
  const bool limited = request.budget.count() > 0;
  std::printf("device %s (%s)\n", where.id.c_str(), where.name.c_str());
  auto groups = make_groups(request, where);
  const auto types = types_by_header(groups);
  std::size_t total = 0, timings = 0;
  for (const auto& [header, list] : types) total += list.size();
  for (const auto& work : groups) {
    for (const auto& shape : work.shapes) {
      timings += std::min(shape.configs.size(), work.candidates.size());
    }
  }
  std::printf("%zu kernels to compile with %d jobs; up to %zu candidates to time\n", total,
              request.jobs, timings);
  if (request.dry_run) {
    for (const auto& work : groups) {
      std::printf("%s:\n", work.name().c_str());
      for (const auto& each : work.candidates) {
        std::printf("  %s\n", config_text(*work.of, each.values).c_str());
      }
    }
    std::printf("dry run: nothing was compiled or timed\n");
    return exit_ok;
  }

  const auto compile_end = limited ? begin + request.budget * 2 / 5 : deadline::max();
  const scratch_folder scratch(request.scratch);
  std::map<std::string, image> images;
  progress compiling("compiling", total);
  for (const auto& [header, list] : types) {
    const compile_settings settings{source_root(), header, where.limits.cc, scratch.path(),
                                    "/proc/self/exe"};
    images.merge(compile_all(settings, list, request.jobs, compile_end,
                             [&] { compiling.step(1); }));
  }
  compiling.finish();

  std::map<std::string, frozen_config> files;  // by kernel
  std::size_t frozen = 0, cut = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& work = groups[g];
    const auto left = begin + request.budget - clock::now();
    if (limited && left.count() <= 0) {
      ++cut;
      continue;
    }
    const auto end = limited ? clock::now() + left / static_cast<int>(groups.size() - g)
                             : deadline::max();
    const auto results = tune_group(work, where, images, request.seed, end, limited);
    if (results.empty()) {
      std::printf("%s: no valid candidate was timed\n", work.name().c_str());
      const bool untried = std::all_of(work.candidates.begin(), work.candidates.end(),
                                       [](const auto& c) { return c.state == status::untried; });
      cut += untried ? 1 : 0;
      continue;
    }
    auto& file = files.emplace(work.kernel->name(), new_file(work, where, request.seed))
                     .first->second;
    add_counts(file.provenance.candidates, work.counts);
    freeze_group(request, work, results, file);
    ++frozen;
  }
  std::printf("%zu of %zu column counts frozen in %.0f s%s\n", frozen, groups.size(),
              seconds_since(begin), cut > 0 ? "; the budget ended before the others" : "");
  if (where.is_host()) std::printf("the host device is a self-test; its times claim nothing\n");
  if (frozen > 0) return exit_ok;
  return cut > 0 ? exit_budget : exit_no_candidate;
}

}  // namespace capstone::tools
