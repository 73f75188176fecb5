// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/counted_copies.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "claims/metrics.hpp"
#include "core/timer.hpp"

namespace capstone::claims {
namespace {

constexpr std::int64_t kib = 1024, mib = 1024 * kib;
constexpr std::int64_t counted_bytes[] = {24 * kib,  mib,       8 * mib,   32 * mib,  64 * mib,
                                          128 * mib, 256 * mib, 512 * mib, 1024 * mib};

/// One metric over the launches of one kernel.
class launches {
 public:
  launches(const ncu_table& table, std::size_t first, int cc)
      : table_(table), first_(first), cc_(cc) {}

  std::vector<double> of(const std::string& canonical) const {
    const std::string name = metric_alias(canonical, cc_);
    const auto found = std::find(table_.metrics.begin(), table_.metrics.end(), name);
    if (found == table_.metrics.end()) throw ncu_error("the profile holds no " + name, "");
    const auto index = static_cast<std::size_t>(found - table_.metrics.begin());
    std::vector<double> values;
    for (int i = 0; i < probe_launches; ++i) {
      const double value = table_.rows.at(first_ + static_cast<std::size_t>(i)).values.at(index);
      if (std::isnan(value)) throw ncu_error(name + " is n/a for a plain copy", "");
      values.push_back(value);
    }
    return values;
  }
  double middle(const std::string& metric) const { return median(of(metric)); }
  double largest(const std::string& metric) const { return quantile(of(metric), 1); }
  double spread(const std::string& metric) const {
    return largest(metric) - quantile(of(metric), 0);
  }

 private:
  const ncu_table& table_;
  std::size_t first_;
  int cc_;
};

void expect_rows(const char* which, const ncu_table& table, std::size_t copies) {
  const std::size_t wanted = (copies + 2) * probe_launches;
  if (table.rows.size() != wanted)
    throw ncu_error("the " + std::string(which) + " profile holds " +
                        std::to_string(table.rows.size()) + " launches; expected " +
                        std::to_string(wanted) + ", " + std::to_string(probe_launches) +
                        " of an empty kernel, of a tensor load and of each copy",
                    "");
  for (std::size_t i = 0; i < wanted; ++i) {
    const char* name = i < probe_launches ? "empty_kernel" : i < 2 * probe_launches ? "tensor_kernel" : "stream_kernel";
    if (table.rows[i].kernel.find(name) == std::string::npos)
      throw ncu_error("launch " + std::to_string(i) + " of the " + which + " profile is of " +
                          table.rows[i].kernel + "; expected " + name,
                      "");
  }
}

/// The SMs' writes are exact to L2, so they tell whether a row is the copy that it is taken for.
void expect_written(const probed_copy& copy, double sectors, std::int64_t written_bytes) {
  const double wanted = double(written_bytes) / 32;
  if (!(std::abs(sectors - wanted) <= 0.1 * wanted + 64))
    throw ncu_error("a copy of " + std::to_string(copy.bytes) + " bytes (" + copy.variant +
                        ") wrote " + std::to_string(sectors) + " sectors to L2; expected " +
                        std::to_string(wanted),
                    "");
}

std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw ncu_error("/proc/self/exe cannot be read: " + error.message(), "");
  return path.string();
}

const char* variant_near(const std::vector<floor_point>& floors, const probed_copy& copy) {
  const floor_point* best = nullptr;
  const auto away = [&](const floor_point& p) {
    return std::abs(std::log(double(p.bytes) / double(copy.bytes)));
  };
  for (const floor_point& p : floors)
    if (p.reads == copy.reads && p.writes == copy.writes &&
        (best == nullptr || away(p) < away(*best)))
      best = &p;
  return best == nullptr ? nullptr : best->variant.c_str();
}

}  // namespace

std::vector<probed_copy> copies_to_count(const std::vector<floor_point>& floors) {
  std::vector<probed_copy> copies;
  for (const std::int64_t streams : {1, 2})
    for (const std::int64_t bytes : counted_bytes) {
      probed_copy copy{streams, streams, bytes, ""};
      const char* variant = variant_near(floors, copy);
      if (variant == nullptr) continue;
      copy.variant = variant;
      copies.push_back(copy);
    }
  return copies;
}

counter_ceilings counters_from(const std::vector<probed_copy>& copies, const ncu_table& core,
                               const ncu_table& pipes, int cc, std::int64_t l2_bytes) {
  expect_rows("core", core, copies.size());
  expect_rows("pipes", pipes, copies.size());
  counter_ceilings result;
  const launches empty(core, 0, cc);
  result.noise_dram_read = recorded(empty.largest("dram__bytes_read.sum"));
  result.noise_dram_write = recorded(empty.largest("dram__bytes_write.sum"));
  result.noise_l2_read_sectors = recorded(empty.largest("lts__t_sectors_srcunit_tex_op_read.sum"));
  result.noise_l2_write_sectors =
      recorded(empty.largest("lts__t_sectors_srcunit_tex_op_write.sum"));
  const launches multiplied(core, probe_launches, cc);
  result.tensor_pct = recorded(multiplied.middle("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"));
  std::vector<double> residue;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const std::size_t first = (i + 2) * probe_launches;
    const launches seen(core, first, cc), busy(pipes, first, cc);
    const traffic_model traffic = streams_of(copies[i].reads, copies[i].writes, copies[i].bytes);
    expect_written(copies[i], seen.middle("lts__t_sectors_srcunit_tex_op_write.sum"),
                   traffic.written_bytes);
    counted_copy c;
    c.reads = copies[i].reads;
    c.writes = copies[i].writes;
    c.read_bytes = traffic.read_bytes;
    c.written_bytes = traffic.written_bytes;
    c.variant = copies[i].variant;
    c.dram_read = recorded(seen.middle("dram__bytes_read.sum"));
    c.dram_read_spread = recorded(seen.spread("dram__bytes_read.sum"));
    c.dram_write = recorded(seen.middle("dram__bytes_write.sum"));
    c.dram_write_spread = recorded(seen.spread("dram__bytes_write.sum"));
    c.dram_pct = recorded(seen.middle("dram__throughput.avg.pct_of_peak_sustained_elapsed"));
    c.sm_pct = recorded(busy.middle("sm__throughput.avg.pct_of_peak_sustained_elapsed"));
    c.duration_us = recorded(seen.middle("gpu__time_duration.sum") / 1e3);  // ns
    if (c.written_bytes >= 2 * l2_bytes)
      for (const double written : seen.of("dram__bytes_write.sum"))
        residue.push_back(double(c.written_bytes) - written);
    result.copies.push_back(std::move(c));
  }
  if (residue.empty())
    throw ncu_error("no copy wrote twice the L2, " + std::to_string(2 * l2_bytes) +
                        " bytes: what stays there is not known",
                    "");
  result.residue_bytes = recorded({median(residue), quantile(residue, 0), quantile(residue, 1)});
  return result;
}

counter_ceilings count_copies(const device& where, const std::vector<floor_point>& floors,
                              const std::string& folder) {
  const int cc = where.limits.cc;
  std::vector<std::string> asked = core_metrics(cc);
  for (const std::string& metric : pipes_metrics(cc)) asked.push_back(metric);
  const ncu_tool tool = find_ncu_for(asked, cc);
  std::vector<probed_copy> copies = copies_to_count(floors);
  // A copy that does not fit beside this process's own context would fail the whole probe.
  const auto room = static_cast<std::int64_t>(free_memory(where) / 10 * 8);
  std::erase_if(copies, [&](const probed_copy& c) { return c.bytes > room; });
  const auto profile = [&](const char* name, std::vector<std::string> metrics) {
    ncu_run run;
    run.folder = folder;
    run.name = name;
    run.metrics = std::move(metrics);
    run.program = {own_path(), "probe",           "--device", std::to_string(where.ordinal),
                   "--plan",   write_plan(copies)};
    std::fprintf(stderr, "calibrate: %s counters of %zu copies by ncu %s\n", name, copies.size(),
                 tool.version.c_str());
    return run_ncu(tool, run).table;
  };
  const ncu_table core = profile("core", core_metrics(cc)),
                  pipes = profile("pipes", pipes_metrics(cc));
  counter_ceilings result = counters_from(copies, core, pipes, cc, where.limits.l2_bytes);
  result.ncu = tool.version;
  return result;
}

}  // namespace capstone::claims
