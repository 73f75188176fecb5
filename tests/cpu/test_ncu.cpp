// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// What ncu 2025.3.1 wrote on an H200, and what other versions, locales and failures write.

#include "claims/ncu.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "claims/metrics.hpp"
#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;

namespace {

const std::string fixtures = std::string(CAPSTONE_SOURCE_DIR) + "/tests/cpu/fixtures/ncu/";

std::string fixture(const std::string& name) {
  std::ifstream in(name.starts_with("/") ? name : fixtures + name);
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

const std::vector<std::string> bytes = {"dram__bytes.sum"};

/// A wide report of one launch with this unit and value of one metric.
std::string wide(const std::string& unit, const std::string& value, const std::string& metric = "dram__bytes.sum") {
  return "\"ID\",\"Kernel Name\",\"Stream\",\"Block Size\",\"Grid Size\",\"" + metric + "\"\n\"\",\"\",\"\",\"\",\"\",\"" + unit +
         "\"\n\"0\",\"k\",\"7\",\"(256, 1, 1)\",\"(16, 1, 1)\",\"" + value + "\"\n";
}

double value_of(const std::string& unit, const std::string& value, const std::string& metric = "dram__bytes.sum") {
  return parse_ncu_csv(wide(unit, value, metric), {metric}).rows.at(0).values.at(0);
}

/// The error's text and remedy, or "" where it is read.
std::string refusal(const std::string& text, const std::vector<std::string>& metrics = bytes) {
  try {
    parse_ncu_csv(text, metrics);
  } catch (const ncu_error& error) {
    return std::string(error.what()) + " / " + error.remedy;
  }
  return "";
}

std::string log_error(const std::string& text) {
  try {
    parse_ncu_log(text);
  } catch (const ncu_error& error) {
    return error.remedy.empty() ? "no remedy" : error.remedy;
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct with_fake {
  with_fake(const char* behaviour) {
    setenv("NCU", (fixtures + "ncu").c_str(), 1);
    setenv("FAKE_NCU", behaviour, 1);
  }
  ~with_fake() { unsetenv("NCU"), unsetenv("FAKE_NCU"); }
};

}  // namespace

TEST_CASE("ncu: the wide report of an H200, its values in base units") {
  const ncu_table t = parse_ncu_csv(fixture("core.raw.csv"), core_metrics(90));
  REQUIRE(t.rows.size() == 2);
  CHECK(t.rows[0].grid[0] == 16384);
  CHECK(t.rows[0].block[0] == 256);
  CHECK(t.rows[0].stream == "7");
  const auto value = [&](const std::string& metric) {
    const auto at = std::find(t.metrics.begin(), t.metrics.end(), metric);
    REQUIRE(at != t.metrics.end());
    return t.rows[0].values[std::size_t(at - t.metrics.begin())];
  };
  CHECK(value("dram__bytes.sum") == 244643584);
  CHECK(value("gpu__time_duration.sum") == 62112);
  CHECK(value("sm__inst_executed.sum") == 37093376);
  CHECK(value("dram__throughput.avg.pct_of_peak_sustained_elapsed") == 81.91);
  CHECK(value("launch__registers_per_thread") == 40);
}

TEST_CASE("ncu: wide, long and among the program's own output, it is the same report") {
  const std::vector<std::string> some = {"dram__bytes.sum", "sm__inst_executed.sum"};
  const ncu_table a = parse_ncu_csv(fixture("core.raw.csv"), some), b = parse_ncu_csv(fixture("core.details.csv"), some);
  REQUIRE(a.rows.size() == b.rows.size());
  for (std::size_t i = 0; i < a.rows.size(); ++i) CHECK(a.rows[i].values == b.rows[i].values);
  CHECK(parse_ncu_csv(fixture("console.raw.csv"), some).rows.size() == 2);
}

TEST_CASE("ncu: units are converted, a blank or unknown one is refused") {
  CHECK(value_of("byte", "244643584.00") == 244643584);
  CHECK(value_of("Kbyte", "1.50") == 1500);
  CHECK(value_of("Mbyte", "244.64") == doctest::Approx(244.64e6));
  for (const auto& [unit, factor] : {std::pair{"ns", 1.0}, {"nsecond", 1.0}, {"us", 1e3}, {"usecond", 1e3}, {"ms", 1e6}, {"msecond", 1e6}, {"s", 1e9}, {"second", 1e9}})
    CHECK(value_of(unit, "2", "gpu__time_duration.sum") == 2 * factor);
  CHECK(contains(refusal(wide("", "5")), "expected byte"));
  CHECK(contains(refusal(wide("Mibyte", "5")), "Mibyte"));
  CHECK(contains(refusal(wide("sector", "5")), "expected byte"));
}

TEST_CASE("ncu: numbers of another locale, or that could be, are refused") {
  CHECK(value_of("byte", "2,000,000,000") == 2e9);
  CHECK(value_of("byte", "1,234.50") == 1234.5);
  CHECK(value_of("byte", "0.41") == 0.41);
  CHECK(value_of("byte", "1e+09") == 1e9);
  for (const char* text : {"27.595.520", "65,77", "1.234", "1,23", "12,34,567", "1 000", "", "-5", "0x10", "inf", "1,0000"}) {
    CAPTURE(text);
    CHECK(contains(refusal(wide("byte", text)), "expected a number"));
  }
}

TEST_CASE("ncu: what was not measured is a NaN, more than 100 % stays") {
  CHECK(std::isnan(value_of("byte", "n/a")));
  CHECK(std::isnan(value_of("byte", "nan")));
  CHECK(value_of("%", "103.20", "dram__throughput.avg.pct_of_peak_sustained_elapsed") == 103.2);
}

TEST_CASE("ncu: a report that is not whole, or not what was asked for, is refused") {
  CHECK(contains(refusal(fixture("pipes.raw.csv"), {"nosuch__metric.sum"}), "nosuch__metric.sum"));
  const std::string whole = fixture("core.raw.csv");
  CHECK(refusal(whole) == "");
  CHECK(refusal(whole.substr(0, whole.size() - 40)) != "");          // cut short within a row
  CHECK(refusal(whole.substr(0, whole.find('\n') + 1)) != "");       // a header alone
  CHECK(contains(refusal(wide("byte", "5\",\"6")), "line 3"));       // a field too many
  CHECK(refusal("") != "");
  CHECK(refusal("==WARNING== No kernels were profiled.\n") != "");
  CHECK(contains(refusal("==WARNING== No kernels were profiled.\n"), "cudaProfilerStart"));
  std::string twice = wide("byte", "5");
  twice.insert(twice.find("\n"), ",\"dram__bytes.sum\"");
  CHECK(refusal(twice) != "");
  CHECK(contains(refusal(whole, {"dram__bytes\u200b.sum"}), "zero-width"));
  CHECK(contains(refusal(whole, {"dram__bytes.sum", "dram__bytes.sum"}), "twice"));
}

TEST_CASE("ncu: the log names the passes of every launch") {
  CHECK(parse_ncu_log(fixture("core.log")) == std::vector{3, 3});
  CHECK(parse_ncu_log(fixture("pipes.log")) == std::vector{10, 10});
  CHECK(parse_ncu_log("==PROF== Profiling \"k\" - 0: 0%....50%....100% - 1 pass\n") == std::vector{1});
  CHECK(log_error("==PROF== Profiling \"k\" - 0: 0%....50%\n") != "");
}

TEST_CASE("ncu: what keeps it from profiling is an error with what to do") {
  CHECK(contains(log_error("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n"), "NVreg_RestrictProfilingToAdminUsers=0"));
  CHECK(contains(log_error("==ERROR== Profiling failed because a driver resource was unavailable.\n"), "dcgmi profile --pause"));
  CHECK(contains(log_error("==ERROR== Profiling is not supported on MIG\n"), "-mig 0"));
  CHECK(contains(log_error("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n"), "gVisor"));
  CHECK(contains(log_error("==ERROR== Cuda driver is not compatible with Nsight Compute\n"), "driver's CUDA version"));
  CHECK(contains(log_error("==WARNING== No kernels were profiled.\n"), "cudaProfilerStart"));
  CHECK(log_error("==ERROR== something new\n") != "");
}

TEST_CASE("ncu: every option that changes what is measured is passed, and the results come back") {
  const with_fake fake("");
  const scratch_tree tree("ncu");
  const ncu_tool tool = find_ncu();
  CHECK(tool.version == "2025.3.1.0 (build 36398880)");
  const ncu_run run{tree.str(), "core", core_metrics(90), {"program", "--flag", "a b"}};
  const ncu_result result = run_ncu(tool, run);
  CHECK(result.table.rows.size() == 2);
  CHECK(result.passes == std::vector{3, 3});
  const std::string asked = fixture(tree.str() + "/core.asked");
  CHECK(contains(asked, "LC_ALL=C\n"));
  CHECK(asked.ends_with("\nprogram\n--flag\na b\n"));  // no shell took them apart
  for (const char* option : {"--config-file\noff", "--rename-kernels\noff", "--target-processes\napplication-only", "--profile-from-start\noff",
                             "--kernel-name-base\nmangled", "--replay-mode\nkernel", "--graph-profiling\nnode", "--cache-control\nall",
                             "--clock-control\nnone", "--pipeline-boost-state\nstable", "--apply-rules\nno", "--disable-extra-suffixes",
                             "--check-exit-code\nyes", "--metrics\ngpu__time_duration.sum,"})
    CHECK_MESSAGE(contains(asked, option), option);
  ncu_run warm = run;
  warm.cold = false;
  const auto arguments = ncu_arguments(tool, warm);
  const auto at = std::find(arguments.begin(), arguments.end(), "--cache-control");
  CHECK(*(at + 1) == "none");
}

TEST_CASE("ncu: metrics are checked against what the profiler lists for the chip") {
  const with_fake fake("");
  const ncu_tool tool = find_ncu();
  std::vector<std::string> asked = core_metrics(90);
  for (const std::string& metric : pipes_metrics(90)) asked.push_back(metric);
  CHECK(unknown_metrics(tool, asked, 90).empty());
  asked.push_back("dram__bites.sum");
  CHECK(unknown_metrics(tool, asked, 90) == std::vector<std::string>{"dram__bites.sum"});
  CHECK(unknown_metrics(tool, asked, 75).empty());  // no name of a chip to ask for
  CHECK_THROWS_WITH_AS(unknown_metrics(tool, asked, 100), doctest::Contains("its form is not known"), ncu_error);  // lists nothing
}

TEST_CASE("ncu: an option or metric that it does not list is refused before the program is run") {
  const scratch_tree tree("ncu");
  const auto refused = [&](const std::string& metric) -> std::string {
    const with_fake fake("");
    try {
      run_ncu(find_ncu_for({"gpu__time_duration.sum", metric}, 90), {tree.str(), "core", core_metrics(90), {"program"}});
    } catch (const ncu_error& error) {
      return error.what();
    }
    return "";
  };
  {
    const with_fake old("old");
    CHECK_THROWS_WITH_AS(find_ncu_for(core_metrics(90), 90), doctest::Contains("does not list the option --graph-profiling"), ncu_error);
  }
  CHECK(contains(refused("dram__bites.sum"), "does not list dram__bites.sum"));
  CHECK(contains(refused("dram__bytes\u200b.sum"), "expected ASCII letters"));
  CHECK_FALSE(std::filesystem::exists(tree.str() + "/core.asked"));
  CHECK(refused("dram__bytes.sum") == "");
  CHECK(std::filesystem::exists(tree.str() + "/core.asked"));
}

namespace {

/// What a run of the stand-in throws: its text, and what to do about it.
std::pair<std::string, std::string> failure(const scratch_tree& tree, const char* behaviour, double timeout_s = 60) {
  const with_fake fake(behaviour);
  ncu_run run{tree.str(), "core", core_metrics(90), {"program"}};
  run.timeout_s = timeout_s;
  try {
    run_ncu(find_ncu(), run);
  } catch (const ncu_error& error) {
    return {error.what(), error.remedy};
  }
  return {};
}

/// A process that is there and no zombie; waits for its end for a while.
bool runs(const std::string& pid) {
  for (int i = 0; i < 300; ++i) {
    std::ifstream stat("/proc/" + pid + "/stat");
    std::string text;
    if (!std::getline(stat, text) || contains(text, ") Z ")) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

std::string grandchild_of(const scratch_tree& tree) {
  std::string pid;
  for (int i = 0; i < 1000 && pid.empty(); ++i) {
    std::ifstream(tree.str() + "/core.grandchild") >> pid;
    if (pid.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return pid;
}

}  // namespace

TEST_CASE("ncu: a failing program's own last lines come first, then the profiler's, in few lines") {
  const scratch_tree tree("ncu");
  const auto [what, remedy] = failure(tree, "fails");
  CHECK(what ==
        "ncu ended with 7; the program's last lines:\non its way: 7\non its way: 8\non its way: 9\nthe cause: no such file\n"
        "ncu's own:\nThe application returned an error code (7).");
  CHECK(contains(remedy, "run the program by itself"));
  CHECK(contains(failure(tree, "crash").first, "Segmentation fault in the program"));  // what it says on its standard output counts, too
}

TEST_CASE("ncu: what to do follows from the profiler's own lines, not from what the program prints") {
  const scratch_tree tree("ncu");
  CHECK(contains(failure(tree, "denied").second, "NVreg_RestrictProfilingToAdminUsers=0"));
  CHECK(contains(failure(tree, "early").second, "does not know an option"));  // it came to no log
  const auto [what, remedy] = failure(tree, "babbles");
  CHECK(contains(what, "ERR_NVGPUCTRPERM"));
  CHECK_FALSE(contains(remedy, "NVreg"));
  CHECK(contains(remedy, "run the program by itself"));
  CHECK(ncu_remedy({"MIGRATE is not supported"}) == "");
  CHECK(contains(ncu_remedy({"not supported on MIG devices"}), "-mig 0"));
}

TEST_CASE("ncu: at the deadline the profiler ends with the program that it started") {
  const scratch_tree tree("ncu");
  const auto begin = std::chrono::steady_clock::now();
  CHECK(contains(failure(tree, "hang", 1).first, "did not end within 1 s"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  const std::string pid = grandchild_of(tree);
  REQUIRE_FALSE(pid.empty());
  CHECK_FALSE(runs(pid));
}

TEST_CASE("ncu: after kill -9 of the one who asked, neither the profiler nor its program runs on") {
  const scratch_tree tree("ncu");
  const pid_t asks = fork();
  REQUIRE(asks >= 0);
  if (asks == 0) {
    failure(tree, "hang", 600);
    _exit(1);
  }
  const std::string pid = grandchild_of(tree);
  kill(asks, SIGKILL);
  waitpid(asks, nullptr, 0);
  REQUIRE_FALSE(pid.empty());
  CHECK_FALSE(runs(pid));
}

TEST_CASE("ncu: a profiler that is not there is an error that names where it was looked for") {
  setenv("NCU", "/nowhere/ncu", 1);
  CHECK_THROWS_WITH_AS(find_ncu(), doctest::Contains("/nowhere/ncu"), ncu_error);
  unsetenv("NCU");
}
