// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/profile_rows.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/fingerprint.hpp"

namespace capstone::claims {
namespace fs = std::filesystem;
namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
constexpr const char* extension = ".yaml";

/// "rows=3,cols=17", with the layout of a problem that is not plain.
std::string stem_of(const problem_id& what) {
  std::string stem = what.shape;
  if (!what.layout.empty()) stem += "," + what.layout;
  std::replace(stem.begin(), stem.end(), ' ', ',');
  return stem;
}

std::string folder_of(const std::string& kernel, const std::string& dtype) {
  return "predictions/" + kernel + "." + dtype;
}

/// The n of `<stem>.<n>.yaml`, or 0 for another file.
int number_of(const std::string& file, const std::string& stem) {
  const std::string begin = stem + ".";
  if (!file.starts_with(begin) || !file.ends_with(extension) ||
      file.size() <= begin.size() + std::string(extension).size())
    return 0;
  const char *first = file.data() + begin.size(),
             *last = file.data() + file.size() - std::string(extension).size();
  int n = 0;
  const auto [end, code] = std::from_chars(first, last, n);
  return code == std::errc() && end == last && *first != '0' && n > 0 ? n : 0;
}

newest_prediction load(const std::string& folder, const std::string& path, int n) {
  const std::string file = folder + "/" + path, text = read_text(file);
  return {n, path, "sha256:" + sha256_hex(text), parse_prediction(text, file)};
}

std::string list_of(const std::vector<std::size_t>& counts) {
  std::string text;
  for (const std::size_t n : counts) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

std::int64_t product(const long long (&extent)[3]) { return extent[0] * extent[1] * extent[2]; }

std::span<const profiled_call> calls_of(const report_calls& report, std::size_t index,
                                        std::size_t launches) {
  return std::span(report.calls).subspan(index * launches, launches);
}

/// Mangled names of all kernels of these calls, each once, in the order they came.
std::vector<std::string> symbols_of(const ncu_table& table, std::span<const profiled_call> calls) {
  std::vector<std::string> symbols;
  for (const profiled_call& call : calls)
    for (const std::size_t row : call.rows)
      if (std::find(symbols.begin(), symbols.end(), table.rows[row].kernel) == symbols.end())
        symbols.push_back(table.rows[row].kernel);
  return symbols;
}

void look_at_launches(const ncu_table& table, std::span<const profiled_call> calls,
                      profiled& entry) {
  std::vector<std::size_t> counts;
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;
  for (const profiled_call& call : calls) {
    counts.push_back(call.rows.size());
    for (const std::size_t row : call.rows)
      if (table.rows[row].stream != call.stream) ++entry.seen.streams;
    if (call.rows.empty()) continue;
    const ncu_row& first = table.rows[call.rows.front()];
    sizes.emplace(product(first.grid), product(first.block));
  }
  entry.seen.symbols = symbols_of(table, calls);
  entry.seen.kernels = static_cast<std::int64_t>(*std::max_element(counts.begin(), counts.end()));
  if (!sizes.empty()) std::tie(entry.seen.grid, entry.seen.block) = *sizes.begin();
  if (entry.seen.kernels == 0)
    entry.faults.push_back({"INVALID", "no call launched a kernel"});
  else if (*std::min_element(counts.begin(), counts.end()) !=
           *std::max_element(counts.begin(), counts.end()))
    entry.faults.push_back(
        {"INVALID", "calls launched differing numbers of kernels: " + list_of(counts)});
  if (sizes.size() > 1)
    entry.faults.push_back({"INVALID", "calls launched grids or blocks of differing sizes"});
}

/// The most passes that a kernel of these calls took; 0 where the log does not match the report.
std::int64_t passes_of(const ncu_result& result, std::span<const profiled_call> calls) {
  if (result.passes.size() != result.table.rows.size()) return 0;
  int most = 0;
  for (const profiled_call& call : calls)
    for (const std::size_t row : call.rows) most = std::max(most, result.passes[row]);
  return most;
}

/// The index of a metric in the report.
std::optional<std::size_t> column_of(const ncu_table& table, const std::string& metric) {
  const auto found = std::find(table.metrics.begin(), table.metrics.end(), metric);
  if (found == table.metrics.end()) return {};
  return static_cast<std::size_t>(found - table.metrics.begin());
}

/// A metric of a call: of its one kernel, or of several what they come to together. NaN without a
/// kernel, for nothing was counted, and where one of them has no number.
double value_of(const ncu_table& table, const profiled_call& call, const std::string& metric) {
  const auto column = column_of(table, metric);
  if (!column || call.rows.empty()) return no_number;
  const auto at = [&](std::size_t row, std::size_t c) { return table.rows[row].values.at(c); };
  if (call.rows.size() == 1) return at(call.rows.front(), *column);
  const auto duration = column_of(table, "gpu__time_duration.sum");
  double sum = 0, weighted = 0, time = 0, most = -std::numeric_limits<double>::infinity();
  for (const std::size_t row : call.rows) {
    const double value = at(row, *column), ns = duration ? at(row, *duration) : no_number;
    if (std::isnan(value)) return no_number;
    sum += value;
    weighted += value * ns;
    time += ns;
    most = std::max(most, value);
  }
  if (metric.ends_with(".sum")) return sum;
  return metric.ends_with(".max") || !(time > 0) ? most : weighted / time;
}

void count(const ncu_table* table, std::span<const profiled_call> calls, std::size_t launches,
           const std::string& metric, const prediction& predicted, profiled& entry) {
  for (const counter_values& known : entry.counters)
    if (known.metric == metric) return;
  const counter_prediction* p = predicted.find(metric);
  counter_values c{metric, p == nullptr ? "" : p->unit, std::vector<double>(launches, no_number)};
  if (table != nullptr) {
    if (const auto column = column_of(*table, metric)) c.unit = table->units.at(*column);
    for (std::size_t i = 0; i < launches; ++i) {
      const double value = value_of(*table, calls[i], metric);
      c.values[i] = std::isnan(value)
                        ? value
                        : recorded(value);  // verdicts are taken on what the record holds
    }
  }
  entry.counters.push_back(c);
}

}  // namespace

std::string prediction_path(const std::string& kernel, const std::string& dtype,
                            const problem_id& what, int n) {
  return folder_of(kernel, dtype) + "/" + stem_of(what) + "." + std::to_string(n) + extension;
}

prediction read_prediction(const std::string& path) {
  return parse_prediction(read_text(path), path);
}

newest_prediction find_newest_prediction(const std::string& folder, const std::string& kernel,
                                         const std::string& dtype, const problem_id& what) {
  int newest = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder + "/" + folder_of(kernel, dtype), none))
    newest = std::max(newest, number_of(entry.path().filename().string(), stem_of(what)));
  if (newest == 0) return {};
  return load(folder, prediction_path(kernel, dtype, what, newest), newest);
}

std::vector<prediction> newest_predictions(const std::string& evidence) {
  std::map<std::string, std::pair<int, std::string>> newest;  // by the path without its number
  std::error_code none;
  for (const auto& device : fs::directory_iterator(evidence, none)) {
    std::error_code nothing;
    for (const auto& file :
         fs::recursive_directory_iterator(device.path() / "predictions", nothing)) {
      const std::string name = file.path().filename().string();
      if (!file.is_regular_file() || file.path().extension() != extension) continue;
      const std::string stem = fs::path(name).stem().stem().string();
      const int n = number_of(name, stem);
      auto& best = newest[(file.path().parent_path() / stem).string()];
      if (n > best.first) best = {n, file.path().string()};
    }
  }
  std::vector<prediction> found;
  for (const auto& [problem, file] : newest)
    if (file.first > 0) found.push_back(read_prediction(file.second));
  return found;
}

std::string name_of(const prediction_key& key) {
  return key.kernel + " " + key.dtype + " " + key.what.shape +
         (key.what.layout.empty() ? "" : " " + key.what.layout);
}

std::string why_not_predicted(const newest_prediction& newest, const prediction_key& now) {
  const std::string about = name_of(now);
  if (newest.n == 0)
    return about + " has no prediction (" + prediction_path(now.kernel, now.dtype, now.what, 1) +
           "); write one with `claims predict` and commit it first";
  const prediction& p = newest.content;
  const std::string
      from = about + ": its newest prediction, " + newest.path + ", is ",
      advice = "; predict again with `claims predict --supersede --why ...` and commit it first";
  if (p.kernel != now.kernel || p.dtype != now.dtype)
    return from + "of " + p.kernel + " " + p.dtype + advice;
  if (p.what != now.what) return from + "of shape " + p.what.shape + " " + p.what.layout + advice;
  if (p.device.id != now.device)
    return from + "for device " + p.device.id + ", not " + now.device + advice;
  if (p.config != now.config)
    return from + "of config " + text_of(p.config) + "; the library uses " + text_of(now.config) +
           advice;
  if (p.source != now.source)
    return from + "of source " + p.source + "; the source is now " + now.source + advice;
  if (p.ceilings != now.ceilings)
    return from + "from ceilings " + p.ceilings + "; ceilings.yaml is now " + now.ceilings + advice;
  return "";
}

std::string harness_line(const std::string& name, const std::string& fault) {
  std::string line = fault.empty() ? "HARNESS OK " + name : "HARNESS FAULT " + name + ": " + fault;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line + "\n";
}

std::vector<std::string> harness_faults(const std::string& output,
                                        const std::vector<std::string>& names) {
  std::vector<std::string> lines, faults;
  std::istringstream in(output);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("HARNESS ")) lines.push_back(line);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string bad = "HARNESS FAULT " + names[i] + ": ";
    if (i < lines.size() && lines[i] == "HARNESS OK " + names[i])
      faults.push_back("");
    else if (i < lines.size() && lines[i].starts_with(bad))
      faults.push_back(lines[i].substr(bad.size()));
    else
      faults.push_back("the profiled program does not say that its output was right" +
                       (i < lines.size() ? "; instead: " + lines[i] : std::string()));
  }
  return faults;
}

report_calls split_calls(const ncu_table& table, const std::string& marker) {
  report_calls report;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    if (table.rows[row].kernel == marker)
      report.calls.push_back({table.rows[row].stream, {}});
    else if (report.calls.empty())
      ++report.stray;
    else
      report.calls.back().rows.push_back(row);
  }
  return report;
}

std::string why_not_split(const report_calls& report, std::size_t problems, std::size_t launches) {
  if (report.stray != 0)
    return "the report holds " + std::to_string(report.stray) +
           " kernels before the first marker; expected none";
  if (report.calls.size() != problems * launches)
    return "the report holds " + std::to_string(report.calls.size()) + " markers; expected " +
           std::to_string(problems * launches);
  return "";
}

void fill_from_report(const told_run& core, const told_run* pipes, std::size_t index,
                      std::size_t launches, const std::vector<std::string>& core_names,
                      const std::vector<std::string>& pipes_names, const prediction& predicted,
                      profiled& entry) {
  const auto calls = calls_of(core.calls, index, launches);
  const auto pipes_calls =
      pipes == nullptr ? std::span<const profiled_call>() : calls_of(pipes->calls, index, launches);
  entry.launches = static_cast<std::int64_t>(launches);
  look_at_launches(core.result.table, calls, entry);
  entry.core_passes = passes_of(core.result, calls);
  // Over several passes a kernel runs several times, and ratios of counters are of different runs.
  if (entry.core_passes == 0 && entry.seen.kernels > 0)
    entry.faults.push_back(
        {"INCONCLUSIVE", "the profiler's log does not tell the passes of the core metrics"});
  if (entry.core_passes > 1)
    entry.faults.push_back(
        {"INCONCLUSIVE",
         "the core metrics took " + std::to_string(entry.core_passes) + " passes; expected 1"});
  if (pipes != nullptr) {
    entry.pipes_passes = passes_of(pipes->result, pipes_calls);
    if (symbols_of(pipes->result.table, pipes_calls) != entry.seen.symbols)
      entry.faults.push_back(
          {"INVALID", "the second run of the profiler saw other kernels than the first"});
  }
  for (const std::string& metric : core_names)
    count(&core.result.table, calls, launches, metric, predicted, entry);
  for (const std::string& metric : pipes_names)
    count(pipes == nullptr ? nullptr : &pipes->result.table, pipes_calls, launches, metric,
          predicted, entry);
  for (const counter_prediction& c : predicted.counters)
    count(nullptr, {}, launches, c.metric, predicted, entry);
}

std::string why_counters_denied(const std::string& params, bool privileged) {
  std::istringstream in(params);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("RmProfilingAdminOnly:") && line.find('1') != std::string::npos &&
        !privileged)
      return "the driver gives its counters to administrators alone (RmProfilingAdminOnly: 1 in "
             "/proc/driver/nvidia/params), and this process is none; run as root, or set the "
             "driver's option "
             "NVreg_RestrictProfilingToAdminUsers=0";
  return "";
}

}  // namespace capstone::claims
