// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Running Nsight Compute's command line.

#include "claims/ncu.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "claims/external.hpp"
#include "core/process.hpp"

namespace capstone::claims {
namespace fs = std::filesystem;
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Runs a program without a shell until it ends or the time is up, what it prints in `output` and, where
/// that is another file, in `errors`. Returns its exit code.
int run_program(const std::vector<std::string>& arguments, const fs::path& output, const fs::path& errors, const fs::path& scratch, double timeout_s) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(timeout_s));
  int code = -1;
  try {
    code = tools::run_to_end({.arguments = arguments,
                              .output = output.string(),
                              .errors = errors == output ? "" : errors.string(),
                              .environment = {"LC_ALL=C", "TMPDIR=" + scratch.string(), "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT=1"}},
                             until);
  } catch (const std::runtime_error& error) {
    throw ncu_error(error.what(), "");
  }
  if (code < 0)
    throw ncu_error(arguments[0] + " did not end within " + std::to_string(int(timeout_s)) + " s and was stopped",
                    "a kernel that waits for the host never ends under replay; else allow more time or fewer problems");
  return code;
}

/// What failed and why: the profiled program's own last words, the cause, and then the profiler's. Only the
/// profiler's own lines decide on a remedy, whatever the program prints.
[[noreturn]] void throw_failed(int code, const std::string& log, const std::string& errors, const std::string& output) {
  std::string program = errors + (last_lines(errors, 1).empty() ? output : ""), profiler = log;
  if (log.empty()) {  // it never came to open its log: what it has to say is where the program's would be
    program.clear();
    std::istringstream all(output + errors);
    for (std::string line; std::getline(all, line);) (line.starts_with("==") ? profiler : program) += line + "\n";
  }
  std::string said = "ncu ended with " + std::to_string(code);
  if (const std::string lines = last_lines(program, 4); !lines.empty()) said += "; the program's last lines:\n" + lines;
  const std::vector<std::string> own = ncu_complaints(profiler);
  std::string complaints;
  for (const std::string& line : own) complaints += line + "\n";
  if (const std::string lines = last_lines(complaints, 2); !lines.empty()) said += "\nncu's own:\n" + lines;
  throw ncu_error(said, ncu_remedy(own));
}

std::string output_of(const std::vector<std::string>& arguments) {
  const scratch_folder scratch;
  const fs::path file = scratch.path() / "out";
  const int code = run_program(arguments, file, file, scratch.path(), 60);
  if (code != 0)
    throw ncu_error(arguments[0] + " " + arguments[1] + " ended with " + std::to_string(code) + ": " + last_lines(read_file(file), 4),
                    "check the installation of Nsight Compute");
  return read_file(file);
}

}  // namespace

ncu_tool find_ncu() {
  const char* named = std::getenv("NCU");
  ncu_tool tool;
  tool.path = named != nullptr && *named != '\0' ? named : find_on_path("ncu");
  for (const char* place : {"/usr/local/cuda/bin/ncu"})
    if (tool.path.empty() && access(place, X_OK) == 0) tool.path = place;
  if (tool.path.empty() || access(tool.path.c_str(), X_OK) != 0)
    throw ncu_error("no ncu " + (tool.path.empty() ? std::string("on the PATH") : "at " + tool.path),
                    "install Nsight Compute (package cuda-nsight-compute of the CUDA toolkit), or name the program in NCU");
  const std::string version = output_of({tool.path, "--version"});
  static const std::regex form("Version ([0-9][0-9.]* \\(build [0-9]+\\))");
  std::smatch found;
  if (!std::regex_search(version, found, form))
    throw ncu_error(tool.path + " --version says '" + last_lines(version, 4) + "'; expected 'Version 2025.3.1.0 (build ...)'", "");
  tool.version = found[1].str();
  const std::string help = output_of({tool.path, "--help"});
  static const std::regex option("^ +(?:-[a-z] \\[ )?(--[a-z0-9-]+)", std::regex::multiline);
  for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at) tool.options.push_back((*at)[1].str());
  return tool;
}

std::vector<std::string> unknown_metrics(const ncu_tool& tool, const std::vector<std::string>& metrics, int cc) {
  const char* chip = cc == 80 ? "ga100" : cc == 90 ? "gh100" : cc == 100 ? "gb100" : cc == 120 ? "gb202" : nullptr;
  if (chip == nullptr) return {};
  // A line a metric, its base name first: "dram__bytes   Counter   byte   # of bytes ..."
  std::istringstream lines(output_of({tool.path, "--query-metrics", "--chips", chip}));
  std::set<std::string> known;
  for (std::string line; std::getline(lines, line);) known.insert(line.substr(0, line.find(' ')));
  if (known.count("gpu__time_duration") == 0)
    throw ncu_error("ncu " + tool.version + " --query-metrics lists no gpu__time_duration for " + chip + ": its form is not known", "");
  std::vector<std::string> unknown;
  for (const std::string& metric : metrics)
    if (!metric.starts_with("launch__") && known.count(metric.substr(0, metric.find('.'))) == 0) unknown.push_back(metric);
  return unknown;
}

std::vector<std::string> ncu_arguments(const ncu_tool& tool, const ncu_run& run) {
  const std::string file = (fs::path(run.folder) / run.name).string();
  std::string metrics;
  for (const std::string& m : run.metrics) metrics += (metrics.empty() ? "" : ",") + m;
  std::vector<std::string> arguments = {tool.path,
                                        "--config-file", "off",
                                        "--rename-kernels", "off",
                                        "--target-processes", "application-only",
                                        "--profile-from-start", "off",
                                        "--kernel-name-base", "mangled",
                                        "--replay-mode", "kernel",
                                        "--graph-profiling", "node",
                                        "--cache-control", run.cold ? "all" : "none",
                                        "--clock-control", "none",
                                        "--apply-rules", "no",
                                        "--import-sass", "no",
                                        "--disable-extra-suffixes",
                                        "--check-exit-code", "yes"};
  const auto knows = [&](const std::string& o) { return std::find(tool.options.begin(), tool.options.end(), o) != tool.options.end(); };
  if (knows("--pipeline-boost-state")) {  // not in every version of 2025
    arguments.push_back("--pipeline-boost-state");
    arguments.push_back("stable");
  }
  for (const std::string& a : {std::string("--metrics"), metrics, std::string("--log-file"), file + ".log", std::string("--force-overwrite"),
                               std::string("--export"), file})
    arguments.push_back(a);
  for (const std::string& a : arguments)
    if (a.starts_with("--") && !knows(a))
      throw ncu_error("ncu " + tool.version + " does not list the option " + a + " in its --help", "use Nsight Compute 2025.1 or newer");
  arguments.insert(arguments.end(), run.program.begin(), run.program.end());
  return arguments;
}

ncu_tool find_ncu_for(const std::vector<std::string>& metrics, int cc) {
  const ncu_tool tool = find_ncu();
  for (const std::string& metric : metrics) check_metric_names({metric});  // one may be asked for in two runs
  ncu_arguments(tool, {.folder = "", .name = "", .metrics = metrics, .program = {}});
  const std::vector<std::string> unknown = unknown_metrics(tool, metrics, cc);
  std::string names;
  for (const std::string& metric : unknown) names += (names.empty() ? "" : ",") + metric;
  if (!unknown.empty())
    throw ncu_error("ncu " + tool.version + " does not list " + names + " for this GPU", "take a version whose --query-metrics does");
  return tool;
}

ncu_result run_ncu(const ncu_tool& tool, const ncu_run& run) {
  if (run.metrics.empty() || run.program.empty())
    throw ncu_error("metrics or program is empty; expected what to read and what to run", "");
  fs::create_directories(run.folder);
  const fs::path base = fs::absolute(fs::path(run.folder)) / run.name;
  ncu_run there = run;
  there.folder = base.parent_path().string();
  ncu_result result;
  result.arguments = ncu_arguments(tool, there);
  for (const char* suffix : {".ncu-rep", ".log", ".csv", ".out", ".err"}) fs::remove(base.string() + suffix);  // never an older run's
  const scratch_folder scratch;
  const std::string output = base.string() + ".out", errors = base.string() + ".err";
  const int code = run_program(result.arguments, output, errors, scratch.path(), run.timeout_s);
  const std::string log = read_file(base.string() + ".log");
  if (code != 0) throw_failed(code, log, read_file(errors), read_file(output));
  result.passes = parse_ncu_log(log);
  const std::vector<std::string> import = {tool.path, "--import", base.string() + ".ncu-rep", "--csv", "--page", "raw", "--print-units", "base",
                                           "--print-fp", "--print-kernel-base", "mangled"};
  const std::string csv = base.string() + ".csv";
  if (const int imported = run_program(import, csv, csv, scratch.path(), run.timeout_s); imported != 0)
    throw ncu_error("ncu --import ended with " + std::to_string(imported) + ": " + last_lines(read_file(csv), 4), "");
  result.table = parse_ncu_csv(read_file(csv), run.metrics);
  if (result.passes.size() != result.table.rows.size())
    throw ncu_error("the log names the passes of " + std::to_string(result.passes.size()) + " launches and the report holds " +
                        std::to_string(result.table.rows.size()),
                    "");
  return result;
}

}  // namespace capstone::claims
