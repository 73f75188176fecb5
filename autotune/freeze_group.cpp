// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/freeze_group.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "autotune/compile.hpp"
#include "autotune/emit.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

// Of what a journal's numbers mean: another way to measure cannot go on from them.
constexpr int measuring = 1;

std::string cc_text(const device_limits& limits) {
  return std::to_string(limits.cc / 10) + "." + std::to_string(limits.cc % 10);
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

bool same_choice(const cols_entry& one, const cols_entry& other) {
  const auto same_rows = [](const rows_entry& a, const rows_entry& b) {
    return a.lo == b.lo && a.hi == b.hi && a.schedule == b.schedule;
  };
  return one.lo == other.lo && one.hi == other.hi && one.reduction == other.reduction &&
         one.merge_band == other.merge_band &&
         std::equal(one.rows.begin(), one.rows.end(), other.rows.begin(), other.rows.end(), same_rows);
}

void print_entry(const std::string& name, const cols_entry& entry) {
  std::string reduction;
  for (const auto& [name, value] : entry.reduction) reduction += " " + name + "=" + value;
  std::printf("%s:%s, at worst %.3f of the best reduction's time (rows %lld)\n",
              name.c_str(), reduction.c_str(), entry.invariance_worst,
              static_cast<long long>(entry.invariance_at_rows));
  for (const auto& rows : entry.rows) {
    std::string schedule;
    for (const auto& [name, value] : rows.schedule) schedule += " " + name + "=" + value;
    std::printf("  %lldx%lld: %.2f us [%.2f, %.2f], %.3f x default, %.4f of the fastest here;%s; %zu ties\n",
                static_cast<long long>(rows.measured_rows), static_cast<long long>(entry.hi),
                rows.evidence.median_us, rows.evidence.ci_low_us, rows.evidence.ci_high_us,
                rows.evidence.vs_default, rows.merge_cost.value_or(1), schedule.c_str(), rows.evidence.ties.size());
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

}  // namespace

json journal_header(const op& of, const kernel_spec& kernel, const device& where, const tune_request& request,
                    const std::vector<std::int64_t>& cols) {
  const auto context = this_run();
  json header = {{"kernel", kernel.name()},
                 {"dtype", kernel.dtype},
                 {"source", source_fingerprint(source_root(), of.header)},
                 {"axes", axes_fingerprint(of)},
                 {"device", {{"id", where.id}, {"name", where.name}, {"cc", cc_text(where.limits)}, {"sms", where.limits.sms},
                             {"l2_bytes", where.limits.l2_bytes}, {"driver", where.driver}}},
                 {"toolchain", {{"cuda", CAPSTONE_CUDA_VERSION}, {"flags", compile_flags(where.limits.cc)}}},
                 {"measuring", measuring},
                 {"cols", cols},
                 {"seed", request.seed},
                 {"simulated", request.simulated},
                 {"git", context.commit},
                 {"dirty", context.dirty}};
  if (request.part.count > 1) header["shard"] = {request.part.index, request.part.count};
  return header;
}

frozen_config file_of_header(const json& header) {
  frozen_config file;
  header.at("kernel").get_to(file.kernel), header.at("dtype").get_to(file.dtype);
  header.at("source").get_to(file.source), header.at("axes").get_to(file.axes);
  const auto& where = header.at("device");
  where.at("id").get_to(file.device.id), where.at("name").get_to(file.device.name), where.at("cc").get_to(file.device.cc);
  where.at("sms").get_to(file.device.sms), where.at("l2_bytes").get_to(file.device.l2_bytes), where.at("driver").get_to(file.device.driver);
  header.at("toolchain").at("cuda").get_to(file.toolchain.cuda), header.at("toolchain").at("flags").get_to(file.toolchain.flags);
  header.at("git").get_to(file.provenance.git), header.at("dirty").get_to(file.provenance.dirty);
  header.at("seed").get_to(file.provenance.seed);
  return file;
}

void freeze_groups(const std::string& out, const std::string& table, const op& of,
                   const std::vector<cols_result>& results, const frozen_config& file) {
  const tree_lock lock(out);
  const auto path = (fs::path(out) / config_path(file)).string();
  std::vector<std::string> notes;
  std::optional<frozen_config> before;
  if (fs::exists(path)) before = read_config(path);
  auto fresh = file;
  fresh.cols.clear();
  std::vector<config> elsewhere;
  if (before) {
    // Only what survives the merge: values of other axes would not even convert.
    auto kept = merge(fresh, *before, notes);
    std::erase_if(kept.cols, [&](const auto& c) {
      return std::any_of(results.begin(), results.end(),
                         [&](const auto& each) { return c.lo <= each.cols && each.cols <= c.hi; });
    });
    elsewhere = configs_in(of, kept);
    notes.clear();
  }
  fresh.cols = freeze_all(of, results, elsewhere, max_configs, notes);
  for (const auto& entry : fresh.cols) {
    const bool as_before = before && std::any_of(before->cols.begin(), before->cols.end(),
                                                 [&](const auto& old) { return same_choice(old, entry); });
    if (entry.lo == results.back().cols || !as_before) print_entry(file.kernel + " " + file.dtype + ", cols " + std::to_string(entry.lo), entry);
  }
  if (before) fresh = merge(fresh, *before, notes);
  atomic_write(path, write_config(fresh));
  for (const auto& note : notes) std::printf("%s: %s\n", path.c_str(), note.c_str());
  const auto made = write_table(out, of.name, table);
  std::printf("wrote %s and %s\n", path.c_str(), made.c_str());
}

std::vector<incumbent> frozen_before(const std::string& out, const op& of, std::int64_t cols, const frozen_config& file) {
  const auto path = (fs::path(out) / config_path(file)).string();
  if (!fs::exists(path)) return {};
  const auto before = read_config(path);
  if (before.source != file.source || before.axes != file.axes) return {};
  std::vector<incumbent> found;
  for (const auto& each : before.cols) {
    if (cols < each.lo || each.hi < cols) continue;
    for (const auto& rows : each.rows) {
      found.push_back({rows.lo, rows.hi, config_from(of, each.reduction, rows.schedule)});
    }
  }
  return found;
}

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

}  // namespace capstone::tools
