// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/nsys.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <regex>
#include <stdexcept>

#include "claims/external.hpp"
#include "core/marker.hpp"
#include "core/process.hpp"

namespace capstone::claims {
namespace fs = std::filesystem;
namespace {

constexpr double moment_s = 60;

/// Runs a program until it ends; what it prints is in `output`. Returns its exit code.
int run_program(const std::vector<std::string>& arguments, const fs::path& output, const fs::path& scratch, double timeout_s) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(timeout_s));
  int code = -1;
  try {
    code = tools::run_to_end({.arguments = arguments, .output = output.string(), .environment = {"LC_ALL=C", "TMPDIR=" + scratch.string()}}, until);
  } catch (const tools::stopped&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw trace_error(error.what());
  }
  if (code < 0) throw trace_error("did not end within " + std::to_string(int(timeout_s)) + " s and was stopped");
  return code;
}

std::string last_line(const fs::path& file) {
  const std::string line = fs::exists(file) ? last_lines(tools::read_text(file.string()), 1) : "";
  return line.empty() ? "it printed nothing" : line;
}

/// Traces a program; the report is <stem>.nsys-rep, what was printed <stem>.out.
void profile(const std::string& nsys, const fs::path& stem, const std::vector<std::string>& program, const fs::path& scratch, double timeout_s) {
  const std::string base = stem.string();
  for (const char* suffix : {".nsys-rep", ".qdstrm", ".out"}) fs::remove(base + suffix);  // never an older run's
  std::vector<std::string> arguments = {nsys, "profile", "--trace=cuda", "--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "--output=" + base};
  arguments.insert(arguments.end(), program.begin(), program.end());
  const int code = run_program(arguments, base + ".out", scratch, timeout_s);
  // Its exit code is the program's. Without an importer it is 0, with what nobody can read.
  if (code != 0) throw trace_error(fs::path(program[0]).filename().string() + " ended with " + std::to_string(code) + " under it: " + last_line(base + ".out"));
  if (fs::exists(base + ".nsys-rep")) return;
  throw trace_error(fs::exists(base + ".qdstrm") ? "no importer beside it" : "it wrote no report: " + last_line(base + ".out"));
}

/// The file below folders of versions, in the newest one.
std::string newest(const fs::path& versions, const fs::path& file) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& version : fs::directory_iterator(versions, ignored))
    if (access((version.path() / file).c_str(), X_OK) == 0) found.push_back(version.path() / file);
  return found.empty() ? "" : std::max_element(found.begin(), found.end())->string();
}

std::string path_of_nsys() {
  if (const char* named = std::getenv("NSYS"); named != nullptr && *named != '\0') {
    if (access(named, X_OK) != 0) throw trace_error("no program at " + std::string(named) + ", which NSYS names");
    return named;
  }
  if (const std::string path = find_on_path("nsys"); !path.empty()) return path;
  if (access("/usr/local/cuda/bin/nsys", X_OK) == 0) return "/usr/local/cuda/bin/nsys";
  for (const std::string& path : {newest("/opt/nvidia/nsight-systems", "bin/nsys"), newest("/opt/nvidia/nsight-compute", "host/target-linux-x64/nsys")})
    if (!path.empty()) return path;
  throw trace_error("not found; install Nsight Systems (package nsight-systems), or name the program in NSYS");
}

/// The first of these names among the reports that are listed.
std::string report_of(const std::string& listed, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::regex_search(listed, std::regex("(^|\\n) *" + name + "(\\[| )"))) return name;
  throw trace_error("it lists no report " + names[0]);
}

std::vector<yaml_reader> rows_of(const std::string& json, const char* report) {
  if (json.empty()) throw trace_error(std::string("its ") + report + " is empty");
  return yaml_reader::parse("{\"rows\": " + json + "}", report).get_list("rows");
}

traced_interval interval_of(const yaml_reader& row, const char* correlation) {
  const auto begin = std::uint64_t(row.get_int("Start (ns)", 0));
  return {row.get_string("Name"), begin, begin + std::uint64_t(row.get_int("Duration (ns)", 0)), std::uint64_t(row.get_int(correlation, 0)), 0};
}

}  // namespace

nsys_tool find_nsys() {
  nsys_tool tool;
  tool.path = path_of_nsys();
  const scratch_folder scratch;
  const fs::path said = scratch.path() / "said";
  run_program({tool.path, "--version"}, said, scratch.path(), moment_s);
  static const std::regex form("version ([0-9][0-9A-Za-z.-]*)");
  const std::string version = tools::read_text(said.string());
  std::smatch found;
  if (!std::regex_search(version, found, form)) throw trace_error(tool.path + " --version says '" + last_lines(version, 1) + "'; expected 'version 2025.3.1'");
  tool.version = found[1].str();
  profile(tool.path, scratch.path() / "trial", {"/bin/true"}, scratch.path(), moment_s);
  run_program({tool.path, "stats", "--help-reports"}, said, scratch.path(), moment_s);
  const std::string listed = tools::read_text(said.string());
  tool.gpu_report = report_of(listed, {"cuda_gpu_trace", "gputrace"});
  tool.api_report = report_of(listed, {"cuda_api_trace", "cudaapitrace"});
  return tool;
}

lane_events run_nsys(const nsys_tool& tool, const nsys_run& run) {
  fs::create_directories(run.folder);
  const fs::path stem = fs::absolute(fs::path(run.folder)) / run.name;
  const scratch_folder scratch;
  profile(tool.path, stem, run.program, scratch.path(), run.timeout_s);
  const std::string base = stem.string();
  const std::vector<std::string> reports = {tool.gpu_report, tool.api_report};
  for (const std::string& report : reports) fs::remove(base + "_" + report + ".json");
  run_program({tool.path, "stats", "--report", reports[0], "--report", reports[1], "--format", "json", "--force-export", "true", "--force-overwrite", "true", "--output",
               base, base + ".nsys-rep"},
              base + ".stats", scratch.path(), run.timeout_s);
  // Its exit code is 0 for a report that it cannot give.
  for (const std::string& report : reports)
    if (!fs::exists(base + "_" + report + ".json")) throw trace_error("it gave no " + report + ": " + last_line(base + ".stats"));
  return read_nsys(tools::read_text(base + "_" + reports[0] + ".json"), tools::read_text(base + "_" + reports[1] + ".json"));
}

lane_events read_nsys(const std::string& gpu_json, const std::string& api_json) try {
  lane_events events;
  for (const yaml_reader& row : rows_of(gpu_json, "trace of the GPU")) {
    traced_interval e = interval_of(row, "CorrId");
    e.stream = std::uint64_t(row.get_int("Strm", 0));
    // "[CUDA memcpy Host-to-Device]", as CUPTI's records are called here
    if (e.name.starts_with("[CUDA memcpy")) e.name = "memcpy";
    else if (e.name.starts_with("[CUDA memset")) e.name = "memset";
    else e.name = short_kernel_name(e.name);
    events.kernels.push_back(e);
  }
  for (const yaml_reader& row : rows_of(api_json, "trace of calls")) {
    traced_interval e = interval_of(row, "CorrID");
    if (is_launch_call(e.name)) events.launches.push_back(e);
  }
  return events;
} catch (const tools::record_error& error) {
  throw trace_error(std::string("its report is not as expected: ") + error.what());
}

std::vector<lane_events> split_windows(const lane_events& events, std::size_t windows) {
  const auto by_begin = [](const traced_interval& a, const traced_interval& b) { return a.begin_ns < b.begin_ns; };
  std::vector<traced_interval> kernels, launches;  // the markers'
  for (const traced_interval& k : events.kernels)
    if (k.name == tools::marker_symbol) kernels.push_back(k);
  std::sort(kernels.begin(), kernels.end(), by_begin);
  for (const traced_interval& k : kernels)
    for (const traced_interval& l : events.launches)
      if (l.correlation == k.correlation) launches.push_back(l);
  if (kernels.size() != 2 * windows || launches.size() != 2 * windows)
    throw trace_error("the trace has " + std::to_string(kernels.size()) + " markers and " + std::to_string(launches.size()) + " launches of them; expected " +
                      std::to_string(2 * windows));
  std::vector<lane_events> split(windows);
  for (std::size_t i = 0; i < windows; ++i) {
    const auto between = [&](const std::vector<traced_interval>& all, const std::vector<traced_interval>& marks, std::vector<traced_interval>& kept) {
      std::copy_if(all.begin(), all.end(), std::back_inserter(kept), [&](const traced_interval& e) {
        return e.begin_ns >= marks[2 * i].end_ns && e.begin_ns < marks[2 * i + 1].begin_ns;
      });
    };
    between(events.kernels, kernels, split[i].kernels);
    between(events.launches, launches, split[i].launches);
  }
  return split;
}

tracer_id trace_by(const std::string& choice, const std::function<tracer_id()>& by_nsys, const std::function<tracer_id()>& by_cupti) {
  if (choice != "auto" && choice != "nsys" && choice != "cupti")
    throw std::invalid_argument("tracer is '" + choice + "'; expected auto, nsys or cupti");
  if (choice == "cupti") return by_cupti();
  std::string why;
  try {
    return by_nsys();
  } catch (const trace_error& error) {
    why = std::string(nsys_name) + ": " + error.what();
  }
  if (choice == "nsys") throw trace_error(why);
  std::replace(why.begin(), why.end(), '\n', ' ');
  tracer_id used = by_cupti();
  used.fallback = why;
  return used;
}

}  // namespace capstone::claims
