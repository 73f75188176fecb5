// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Running Nsight Compute's command line.

#include "claims/ncu.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

namespace capstone::claims {
namespace fs = std::filesystem;
namespace {

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// The last lines of a program's output, for an error.
std::string last_lines(const std::string& text) {
  std::size_t from = text.size();
  for (int lines = 0; from > 0 && lines < 4; --from) lines += text[from - 1] == '\n' ? 1 : 0;
  std::string tail = text.substr(from);
  std::replace(tail.begin(), tail.end(), '\n', ' ');
  return tail.size() > 400 ? tail.substr(tail.size() - 400) : tail;
}

/// Runs a program without a shell, both its streams into `output`; in a process group of its own,
/// which is killed when the time is up. Returns its exit code.
int run_program(const std::vector<std::string>& arguments, const fs::path& output, const fs::path& scratch, double timeout_s) {
  std::vector<char*> argv;
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  // What the child needs is made before the fork: after it, only async-signal-safe calls are allowed.
  std::vector<std::string> environment = {"LC_ALL=C", "TMPDIR=" + scratch.string(), "NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT=1"};
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    const auto same_name = [&](const std::string& ours) { return entry.compare(0, ours.find('=') + 1, ours, 0, ours.find('=') + 1) == 0; };
    if (std::none_of(environment.begin(), environment.begin() + 3, same_name)) environment.push_back(entry);
  }
  std::vector<char*> envp;
  for (const std::string& e : environment) envp.push_back(const_cast<char*>(e.c_str()));
  envp.push_back(nullptr);
  const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (out < 0) throw ncu_error(output.string() + " cannot be written: " + std::strerror(errno), "");
  const pid_t child = fork();
  if (child < 0) {
    close(out);
    throw ncu_error(std::string("no process can be started: ") + std::strerror(errno), "");
  }
  if (child == 0) {
    setpgid(0, 0);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0), dup2(out, 1), dup2(out, 2);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out);
  setpgid(child, child);  // whoever of the two comes first
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  int status = 0;
  for (;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child) break;
    if (done < 0) throw ncu_error(std::string("the profiler's process is lost: ") + std::strerror(errno), "");
    if (std::chrono::steady_clock::now() > end) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      throw ncu_error(arguments[0] + " did not end within " + std::to_string(int(timeout_s)) + " s and was stopped",
                      "a kernel that waits for the host never ends under replay; else allow more time or fewer problems");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string find_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const fs::path file = fs::path(folder) / name; access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file)) return file.string();
  return "";
}

class scratch_folder {
 public:
  scratch_folder() : path_((fs::temp_directory_path() / "capstone-ncu-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw ncu_error("the folder " + path_ + " cannot be made", "");
  }
  ~scratch_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  fs::path path() const { return path_; }

 private:
  std::string path_;
};

std::string output_of(const std::vector<std::string>& arguments) {
  const scratch_folder scratch;
  const fs::path file = scratch.path() / "out";
  const int code = run_program(arguments, file, scratch.path(), 60);
  if (code != 0)
    throw ncu_error(arguments[0] + " " + arguments[1] + " ended with " + std::to_string(code) + ": " + last_lines(read_file(file)),
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
    throw ncu_error(tool.path + " --version says '" + last_lines(version) + "'; expected 'Version 2025.3.1.0 (build ...)'", "");
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

ncu_result run_ncu(const ncu_tool& tool, const ncu_run& run) {
  if (run.metrics.empty() || run.program.empty())
    throw ncu_error("metrics or program is empty; expected what to read and what to run", "");
  fs::create_directories(run.folder);
  const fs::path base = fs::absolute(fs::path(run.folder)) / run.name;
  ncu_run there = run;
  there.folder = base.parent_path().string();
  ncu_result result;
  result.arguments = ncu_arguments(tool, there);
  for (const char* suffix : {".ncu-rep", ".log", ".csv", ".out"}) fs::remove(base.string() + suffix);  // never an older run's
  const scratch_folder scratch;
  const int code = run_program(result.arguments, base.string() + ".out", scratch.path(), run.timeout_s);
  const std::string log = read_file(base.string() + ".log");
  if (code != 0) {
    if (log.find("==ERROR==") != std::string::npos) parse_ncu_log(log);  // throws with what to do
    throw ncu_error("ncu ended with " + std::to_string(code) + ": " + last_lines(log + read_file(base.string() + ".out")), "");
  }
  result.passes = parse_ncu_log(log);
  const std::vector<std::string> import = {tool.path, "--import", base.string() + ".ncu-rep", "--csv", "--page", "raw", "--print-units", "base",
                                           "--print-fp", "--print-kernel-base", "mangled"};
  if (const int imported = run_program(import, base.string() + ".csv", scratch.path(), run.timeout_s); imported != 0)
    throw ncu_error("ncu --import ended with " + std::to_string(imported) + ": " + last_lines(read_file(base.string() + ".csv")), "");
  result.table = parse_ncu_csv(read_file(base.string() + ".csv"), run.metrics);
  if (result.passes.size() != result.table.rows.size())
    throw ncu_error("the log names the passes of " + std::to_string(result.passes.size()) + " launches and the report holds " +
                        std::to_string(result.table.rows.size()),
                    "");
  return result;
}

}  // namespace capstone::claims
