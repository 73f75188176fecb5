// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Reading what Nsight Compute writes: its CSV pages and its log.

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "claims/ncu.hpp"

namespace capstone::claims {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& remedy = "") {
  throw ncu_error(what, remedy);
}

std::string quoted(const std::string& text) {
  return "\"" + (text.size() > 160 ? text.substr(0, 157) + "..." : text) + "\"";
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    while (!lines.back().empty() && (lines.back().back() == '\r' || lines.back().back() == ' '))
      lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

// ---- Errors that the profiler reports -----------------------------------------------------------

struct cause {
  const char* phrase;
  const char* remedy;
};

// In the order in which they explain each other: what the profiler says after a refusal (the program
// ended with 9, nothing was profiled) is that refusal's consequence.
constexpr std::array causes = {
    cause{"ERR_NVGPUCTRPERM",
          "run as root, or in a container with `docker run --cap-add=SYS_ADMIN`; or let every user read "
          "the counters: `echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee "
          "/etc/modprobe.d/nvidia-profiling.conf`, `sudo update-initramfs -u`, then reboot "
          "(RmProfilingAdminOnly in /proc/driver/nvidia/params is then 0)"},
    cause{"driver resource was unavailable",
          "another program holds the GPU's counters: `dcgmi profile --pause` (afterwards `dcgmi profile "
          "--resume`), and end other runs of ncu, nsys or CUPTI on this machine"},
    cause{"MIG",
          "profile a whole GPU: `sudo nvidia-smi -i <gpu> -mig 0` while nothing uses it, or choose one "
          "without MIG by CUDA_VISIBLE_DEVICES (`nvidia-smi -L` lists MIG devices)"},
    cause{"LibraryNotLoaded",
          "the driver's profiling library is out of reach: a gVisor sandbox has none (`dmesg | head` names "
          "it), so run on the host or in a plain container; else take the ncu of the driver's CUDA version, "
          "which `nvidia-smi` prints: `export NCU=/usr/local/cuda-<version>/bin/ncu`"},
    cause{"driver is not compatible with Nsight Compute",
          "take an ncu no newer than the driver's CUDA version, which `nvidia-smi` prints: `export "
          "NCU=/usr/local/cuda-<version>/bin/ncu`; or update the driver"},
    cause{"failed to connect to the CUDA driver",
          "no driver, or its stub was found first: take the folders named stubs out of LD_LIBRARY_PATH; "
          "`nvidia-smi` must list the GPU"},
    cause{"unrecognised option",
          "this ncu does not know an option that its --help lists: run `$NCU --version` and take 2025.3"},
    cause{"application returned an error code",
          "run the program by itself until it succeeds; what it printed is in the .err and .out files beside the log"},
};

constexpr const char* no_kernels_remedy =
    "the program must call cudaProfilerStart after it made its context (cudaFree(0)) and before the "
    "launch to be profiled, cudaProfilerStop after it, and launch from its own process";

/// A phrase as words of its own: "MIG" is not in "MIGRATE".
bool says(const std::string& text, std::string_view phrase) {
  const auto inside = [&](std::size_t at) { return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_'); };
  for (auto at = text.find(phrase); at != std::string::npos; at = text.find(phrase, at + 1))
    if ((at == 0 || !inside(at - 1)) && !inside(at + phrase.size())) return true;
  return false;
}

/// Throws for the lines that begin with ==ERROR==, and for a run that profiled nothing.
void throw_reported(const std::vector<std::string>& lines) {
  std::string errors;
  bool none = false;
  for (const std::string& line : lines) {
    if (line.starts_with("==ERROR==")) {
      errors += (errors.empty() ? "" : "; ") + line.substr(std::min<std::size_t>(10, line.size()));
    }
    none |= line.starts_with("==WARNING== No kernels were profiled");
  }
  if (!errors.empty()) {
    const std::string remedy = ncu_remedy({errors});
    refuse("ncu: " + errors, remedy.empty() ? "the whole text is in the log of the run" : remedy);
  }
  if (none) refuse("ncu: No kernels were profiled", no_kernels_remedy);
}

// ---- CSV ----------------------------------------------------------------------------------------

struct record {
  std::size_t line = 0;  ///< from 1
  std::vector<std::string> fields;
};

/// A cell with its place, for the error's text.
struct cell {
  std::size_t line;
  std::string column, value;
};

[[noreturn]] void refuse(const cell& at, const std::string& expected, const std::string& remedy = "") {
  refuse("line " + std::to_string(at.line) + ", column " + at.column + ": " + quoted(at.value) +
             ", expected " + expected,
         remedy);
}

/// Every field is quoted, as ncu writes them: in a file cut short the last one is not closed.
record fields_of(const std::string& line, std::size_t number) {
  record r{number, {}};
  for (std::size_t at = 0;;) {
    const std::string place = "line " + std::to_string(number) + ", field " +
                              std::to_string(r.fields.size() + 1) + ": ";
    if (at >= line.size() || line[at] != '"')
      refuse(place + quoted(line.substr(std::min(at, line.size()))) + ", expected a field in quotes");
    std::string field;
    for (++at;; ++at) {
      if (at >= line.size()) refuse(place + "the quotes are not closed: is the file cut short?");
      if (line[at] != '"') {
        field += line[at];
      } else if (at + 1 < line.size() && line[at + 1] == '"') {
        field += line[at++];
      } else {
        break;
      }
    }
    r.fields.push_back(std::move(field));
    if (++at == line.size()) return r;
    if (line[at++] != ',')
      refuse(place + "followed by " + quoted(line.substr(at - 1, 1)) + ", expected a comma");
  }
}

// ---- Units and numbers --------------------------------------------------------------------------

struct unit {
  std::string base;
  double factor = 1;
};

/// The closed list of units, per base unit; scaled ones are decimal (Mbyte = 1e6 bytes).
const std::map<std::string, unit, std::less<>>& units() {
  static const auto known = [] {
    std::map<std::string, unit, std::less<>> all;
    for (const char* plain : {"", "%", "sector", "inst", "cycle", "block", "thread", "warp", "SM", "pass",
                              "request", "register/thread", "inst/cycle", "cluster"})
      all[plain] = {plain, 1};
    constexpr std::array<std::pair<const char*, double>, 5> prefixes = {
        {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}}};
    for (const auto& [prefix, factor] : prefixes) {
      const std::string p = prefix;
      for (const char* of : {"byte", "byte/block"}) all[p + of] = {of, factor};
      for (const char* spelled : {"byte/second", "byte/s"}) all[p + spelled] = {"byte/s", factor};
      all[p + "hz"] = {"hz", factor};
    }
    for (const char* spelled : {"ns", "nsecond"}) all[spelled] = {"ns", 1};
    for (const char* spelled : {"us", "usecond"}) all[spelled] = {"ns", 1e3};
    for (const char* spelled : {"ms", "msecond"}) all[spelled] = {"ns", 1e6};
    for (const char* spelled : {"s", "second"}) all[spelled] = {"ns", 1e9};
    for (const char* spelled : {"cycle/nsecond", "cycle/ns"}) all[spelled] = {"hz", 1e9};
    for (const char* spelled : {"cycle/usecond", "cycle/us"}) all[spelled] = {"hz", 1e6};
    for (const char* spelled : {"cycle/second", "cycle/s"}) all[spelled] = {"hz", 1};
    return all;
  }();
  return known;
}

/// The base unit that a metric of this name must have, or "" where its unit scales nothing.
std::string due_unit(const std::string& metric) {
  const auto has = [&](const char* part) { return metric.find(part) != std::string::npos; };
  if (has(".pct") || metric.ends_with("_pct")) return "%";
  if (has(".ratio") || has("peak_sustained") || has(".per_cycle")) return "";
  const bool bytes = has("_bytes.") || has("_bytes_");
  if (has(".per_second")) return bytes ? "byte/s" : has("__cycles_") ? "hz" : "";
  if (bytes) return "byte";
  if (metric.starts_with("gpu__time_")) return "ns";
  if (metric.starts_with("launch__shared_mem_per_block")) return "byte/block";
  return "";
}

unit read_unit(const cell& at, const std::string& metric) {
  const std::string due = due_unit(metric);
  const std::string& text = at.value;
  if (text.empty() && !due.empty())
    refuse(at, due + ", the unit of " + metric + ": without one its scale is a guess");
  const auto found = units().find(text);
  if (found == units().end()) refuse(at, "a known unit of " + metric + ", such as " + quoted(due));
  if (!due.empty() && found->second.base != due) refuse(at, due + ", the unit of " + metric);
  return found->second;
}

/// A number in the C locale: digits, in well-formed groups of three or none, and a decimal point.
/// ncu prints integers or two decimals, so "1.234" is a grouped number of another locale, and
/// "1,234" a grouped number of this one.
double read_number(const cell& at) {
  const std::string& text = at.value;
  // No such metric here, or shared units of a MIG instance: evidence that is missing, which no
  // comparison with a NaN can pass for. An infinity is a measurement that went wrong: refused.
  if (text == "n/a" || text == "N/A" || text == "nan" || text == "NaN" || text == "-nan")
    return std::numeric_limits<double>::quiet_NaN();
  const char* const expected = "a number such as \"1234.56\" or \"1,234.56\", or n/a";
  const char* const remedy = "run ncu with LC_ALL=C, --print-units base and --print-fp";
  std::string digits;
  std::size_t i = 0;
  while (i < text.size() && is_digit(text[i])) digits += text[i++];
  const std::size_t lead = digits.size();
  bool grouped = false;
  if (lead == 0) refuse(at, expected, remedy);
  while (i < text.size() && text[i] == ',') {
    grouped = true;
    for (++i; i < text.size() && is_digit(text[i]); ++i) digits += text[i];
  }
  if (grouped) {  // again, by shape: d{1,3}(,ddd)+
    if (lead > 3 || text[0] == '0') refuse(at, expected, remedy);
    for (std::size_t g = lead; g < i; g += 4)
      if (text[g] != ',' || g + 4 > i || text.substr(g + 1, 3).find(',') != std::string::npos)
        refuse(at, expected, remedy);
  }
  if (i < text.size() && text[i] == '.') {
    const std::size_t point = i;
    digits += '.';
    for (++i; i < text.size() && is_digit(text[i]); ++i) digits += text[i];
    const std::size_t decimals = i - point - 1;
    if (decimals == 0) refuse(at, expected, remedy);
    if (decimals == 3 && !grouped && lead <= 3 && text[0] != '0')
      refuse(at, std::string(expected) + ": three digits after a point may be a group of thousands", remedy);
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    digits += text.substr(i);
    i = text.size();  // from_chars below says whether this is an exponent
  }
  double value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (i != text.size() || code != std::errc() || end != digits.data() + digits.size())
    refuse(at, expected, remedy);
  return value;
}

/// "(256, 1, 1)"
void read_extent(const cell& at, long long (&extent)[3]) {
  std::string_view rest = at.value;
  const char* const expected = "three positive integers such as \"(256, 1, 1)\"";
  for (int d = 0; d < 3; ++d) {
    const std::string_view before = d == 0 ? "(" : ",";
    if (!rest.starts_with(before)) refuse(at, expected);
    rest.remove_prefix(1);
    while (rest.starts_with(" ")) rest.remove_prefix(1);
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), extent[d]);
    if (code != std::errc() || extent[d] < 1) refuse(at, expected);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  }
  if (rest != ")") refuse(at, expected);
}

// ---- Metric names -------------------------------------------------------------------------------

bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

/// What a name looks like on a screen: without the zero-width characters that copying brings along.
std::string visible(const std::string& name) {
  std::string kept;
  for (const char c : name)
    if (is_name(c)) kept += c;
  return kept;
}

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

/// Up to three of `names` that `wanted` may have been meant to be.
std::string near(const std::string& wanted, const std::vector<std::string>& names) {
  std::vector<std::pair<std::size_t, std::string>> close;
  const std::string stem = wanted.substr(0, wanted.find('.')) + ".";
  for (const std::string& name : names) {
    if (name.starts_with("device__") || name.empty()) continue;
    const std::size_t far = distance(wanted, name);
    if (name.starts_with(stem) || far <= std::max<std::size_t>(3, wanted.size() / 5)) close.push_back({far, name});
  }
  std::sort(close.begin(), close.end());
  close.resize(std::min<std::size_t>(close.size(), 3));
  std::string text;
  for (const auto& [far, name] : close) text += (text.empty() ? " (near it: " : ", ") + name;
  return text.empty() ? "" : text + ")";
}

void require_metrics(const std::vector<std::string>& metrics, const std::vector<std::string>& present) {
  std::string missing;
  for (const std::string& metric : metrics) {
    if (std::find(present.begin(), present.end(), metric) != present.end()) continue;
    for (const std::string& name : present) {
      if (name != metric && visible(name) == metric)
        refuse("the report's " + quoted(name) + " is " + metric + " with invisible characters in it",
               "type the metric's name instead of pasting it");
    }
    missing += (missing.empty() ? "" : ", ") + metric + near(metric, present);
  }
  if (!missing.empty())
    refuse("the report has no metric " + missing,
           "`ncu --query-metrics --chips <chip>` lists the names of a chip; a name needs its suffix, such as "
           ".sum");
}

// ---- The two pages ------------------------------------------------------------------------------

/// The report as records of equal length below its header.
struct page {
  record header;
  std::vector<record> rows;

  /// Throws where the column is missing or there twice.
  std::size_t column(const std::string& name) const {
    const auto& names = header.fields;
    const auto first = std::find(names.begin(), names.end(), name);
    if (first == names.end())
      refuse("line " + std::to_string(header.line) + ": the header has no column " + quoted(name));
    if (std::find(first + 1, names.end(), name) != names.end())
      refuse("line " + std::to_string(header.line) + ": the header has the column " + quoted(name) +
             " twice, expected once");
    return static_cast<std::size_t>(first - names.begin());
  }
  cell at(const record& r, std::size_t column) const {
    return {r.line, quoted(header.fields[column]), r.fields[column]};
  }
};

page read_page(const std::vector<std::string>& lines) {
  page p;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line.empty() || line.starts_with("==")) continue;
    // On a console the profiled program's own output stands above the header.
    if (p.header.line == 0 && !line.starts_with("\"ID\",")) continue;
    record r = fields_of(line, i + 1);
    if (p.header.line == 0) {
      p.header = std::move(r);
      continue;
    }
    if (r.fields.size() != p.header.fields.size())
      refuse("line " + std::to_string(i + 1) + ": " + std::to_string(r.fields.size()) + " fields, expected " +
             std::to_string(p.header.fields.size()) + " as in the header: is the file cut short?");
    p.rows.push_back(std::move(r));
  }
  if (p.header.line == 0) refuse("no header, a line that begins with \"ID\", was found in the report");
  return p;
}

/// The columns that say which launch a row is of.
struct identity {
  std::size_t id, kernel, stream, block, grid;
  explicit identity(const page& p)
      : id(p.column("ID")),
        kernel(p.column("Kernel Name")),
        stream(p.column("Stream")),
        block(p.column("Block Size")),
        grid(p.column("Grid Size")) {}

  ncu_row read(const page& p, const record& r, std::size_t values) const {
    ncu_row row;
    row.kernel = r.fields[kernel];
    row.stream = r.fields[stream];
    read_extent(p.at(r, block), row.block);
    read_extent(p.at(r, grid), row.grid);
    row.values.assign(values, std::numeric_limits<double>::quiet_NaN());
    return row;
  }
};

ncu_table read_wide(const page& p, const std::vector<std::string>& metrics) {
  const identity who(p);
  require_metrics(metrics, p.header.fields);
  ncu_table table;
  table.metrics = metrics;
  if (p.rows.empty()) refuse("the report ends after its header, expected a row of units", no_kernels_remedy);
  const record& unit_row = p.rows.front();
  if (!unit_row.fields[who.id].empty())
    refuse(p.at(unit_row, who.id), "nothing: the row below the header is that of the units",
           "run ncu with --page raw --print-units base");
  std::vector<std::size_t> columns;
  std::vector<double> factors;
  for (const std::string& metric : metrics) {
    columns.push_back(p.column(metric));
    const unit u = read_unit(p.at(unit_row, columns.back()), metric);
    table.units.push_back(u.base);
    factors.push_back(u.factor);
  }
  std::set<std::string> ids;
  for (std::size_t i = 1; i < p.rows.size(); ++i) {
    const record& r = p.rows[i];
    if (r.fields[who.id].empty() || !ids.insert(r.fields[who.id]).second)
      refuse(p.at(r, who.id), "an ID of its own for every launch");
    table.rows.push_back(who.read(p, r, metrics.size()));
    for (std::size_t m = 0; m < metrics.size(); ++m)
      table.rows.back().values[m] = factors[m] * read_number(p.at(r, columns[m]));
  }
  return table;
}

ncu_table read_long(const page& p, const std::vector<std::string>& metrics) {
  const identity who(p);
  const std::size_t name = p.column("Metric Name"), units = p.column("Metric Unit"),
                    values = p.column("Metric Value");
  std::vector<std::string> present;
  for (const record& r : p.rows) present.push_back(r.fields[name]);
  require_metrics(metrics, present);
  ncu_table table;
  table.metrics = metrics;
  table.units.resize(metrics.size());
  std::vector<std::string> ids;
  std::vector<std::vector<bool>> seen;
  for (const record& r : p.rows) {
    std::size_t i = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), r.fields[who.id]) - ids.begin());
    if (i == ids.size()) {
      ids.push_back(r.fields[who.id]);
      table.rows.push_back(who.read(p, r, metrics.size()));
      seen.emplace_back(metrics.size());
    } else if (r.fields[who.kernel] != table.rows[i].kernel) {
      refuse(p.at(r, who.kernel), quoted(table.rows[i].kernel) + ", the kernel of the launch with this ID");
    }
    const auto found = std::find(metrics.begin(), metrics.end(), r.fields[name]);
    if (found == metrics.end()) continue;
    const auto m = static_cast<std::size_t>(found - metrics.begin());
    if (seen[i][m]) refuse(p.at(r, name), "every metric once for a launch");
    const unit u = read_unit(p.at(r, units), *found);
    const bool first = std::none_of(seen.begin(), seen.end(), [m](const auto& s) { return s[m]; });
    if (!first && table.units[m] != u.base)
      refuse(p.at(r, units), quoted(table.units[m]) + ", this metric's unit for an earlier launch");
    table.units[m] = u.base;
    table.rows[i].values[m] = u.factor * read_number(p.at(r, values));
    seen[i][m] = true;
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t m = 0; m < metrics.size(); ++m)
      if (!seen[i][m]) refuse("the launch with ID " + ids[i] + " has no " + metrics[m] + ": is the file cut short?");
  return table;
}

}  // namespace

std::vector<std::string> ncu_complaints(const std::string& text) {
  std::vector<std::string> complaints;
  for (const std::string& line : lines_of(text))
    for (const std::string_view mark : {"==ERROR== ", "==WARNING== "})
      if (line.starts_with(mark)) complaints.push_back(line.substr(mark.size()));
  return complaints;
}

std::string ncu_remedy(const std::vector<std::string>& complaints) {
  for (const cause& known : causes)
    for (const std::string& complaint : complaints)
      if (says(complaint, known.phrase)) return known.remedy;
  return "";
}

ncu_table parse_ncu_csv(const std::string& text, const std::vector<std::string>& metrics) {
  check_metric_names(metrics);
  const std::vector<std::string> lines = lines_of(text);
  throw_reported(lines);
  const page p = read_page(lines);
  const auto& names = p.header.fields;
  const bool is_long = std::find(names.begin(), names.end(), "Metric Name") != names.end();
  if (is_long && p.rows.empty()) refuse("the report has no row below its header", no_kernels_remedy);
  ncu_table table = is_long ? read_long(p, metrics) : read_wide(p, metrics);
  if (table.rows.empty()) refuse("the report has no launches", no_kernels_remedy);
  return table;
}

void check_metric_names(const std::vector<std::string>& metrics) {
  if (metrics.empty()) refuse("no metric was asked for, expected at least one");
  for (const std::string& metric : metrics) {
    if (metric.empty() || visible(metric) != metric)
      refuse("metric " + quoted(metric) + ": expected ASCII letters, digits, _ and . alone, such as " +
                 quoted(visible(metric)),
             "type the metric's name instead of pasting it: copied text may hold zero-width characters");
    if (std::count(metrics.begin(), metrics.end(), metric) > 1)
      refuse("metric " + quoted(metric) + " was asked for twice, expected once");
  }
}

std::vector<int> parse_ncu_log(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  throw_reported(lines);
  std::vector<int> passes;
  std::size_t begun = 0;  // line of the launch whose passes are still to come, or 0
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    const bool begins = line.starts_with("==PROF== Profiling \"");
    if (begins) {
      if (begun != 0) refuse("the log's line " + std::to_string(begun) + " begins a launch that does not end");
      begun = i + 1;
    } else if (begun == 0 || line.starts_with("==")) {
      continue;
    }
    // A warning can split the line: `0%` … `....50%....100% - 1 pass`.
    const std::size_t dash = line.rfind(" - ");
    if (dash == std::string::npos) continue;
    int n = 0;
    const auto [end, code] = std::from_chars(line.data() + dash + 3, line.data() + line.size(), n);
    const std::string_view word(end, static_cast<std::size_t>(line.data() + line.size() - end));
    if (code != std::errc() || (word != " pass" && word != " passes")) continue;
    if (n < 1) refuse("the log's line " + std::to_string(i + 1) + ": " + std::to_string(n) + " passes, expected 1 or more");
    passes.push_back(n);
    begun = 0;
  }
  if (begun != 0)
    refuse("the log's line " + std::to_string(begun) + " begins a launch that does not end: was ncu stopped?");
  if (passes.empty()) refuse("the log names no profiled launch", no_kernels_remedy);
  return passes;
}

}  // namespace capstone::claims
