// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// `claims profile` without a GPU: reports told apart by their markers, made-up rows of kernels that
// cheat, and refusals.

#include <doctest/doctest.h>

#include <stdlib.h>

#include <cmath>
#include <filesystem>

#include "claims/metrics.hpp"
#include "claims/profile.hpp"
#include "claims/profile_rows.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"
#include "core/marker.hpp"
#include "tests/cpu/faulty_scale.hpp"
#include "tests/cpu/prediction_example.hpp"

using namespace capstone::claims;
using capstone::tests::made_up_prediction;
using capstone::tests::fake::fake_kernel;
using capstone::tests::fake::fake_op;
using capstone::tests::fake::scratch_tree;

namespace {

const std::vector<std::string> core_names = {"gpu__time_duration.sum", "dram__bytes.sum",
                                             "sm__busy.avg.pct", "launch__registers.max"};
const std::vector<std::string> pipes_names = {"sm__throughput.avg.pct_of_peak_sustained_elapsed",
                                              "gpu__time_duration.sum"};

/// Reports are built from words: "m" is a marker, another word a kernel of that name.
struct report_builder {
  told_run run;
  explicit report_builder(const std::vector<std::string>& metrics) {
    run.result.table.metrics = metrics;
    run.result.table.units.assign(metrics.size(), "u");
  }
  report_builder& add(const std::string& word, const std::vector<double>& values = {},
                      const char* stream = "13", long long grid = 64, int passes = 1) {
    ncu_row row;
    row.kernel = word == "m" ? std::string(marker_symbol) : word;
    row.stream = stream;
    row.grid[0] = grid, row.grid[1] = row.grid[2] = 1;
    row.block[0] = 128, row.block[1] = 2, row.block[2] = 1;
    row.values = values;
    row.values.resize(run.result.table.metrics.size(), 7);
    run.result.table.rows.push_back(row);
    run.result.passes.push_back(passes);
    return *this;
  }
  const told_run& done() {
    run.calls = split_calls(run.result.table, marker_symbol);
    return run;
  }
};

/// Two problems of two launches, the second problem's kernel being "b".
report_builder two_problems(const std::vector<std::string>& metrics = core_names) {
  report_builder report(metrics);
  report.add("m").add("a", {10, 100, 50, 40}).add("m").add("a", {11, 101, 51, 40});
  report.add("m").add("b", {20, 200, 60, 30}).add("m").add("b", {21, 201, 61, 30});
  return report;
}

profiled filled(const told_run& core, const told_run* pipes = nullptr, std::size_t index = 0) {
  profiled entry;
  fill_from_report(core, pipes, index, 2, core_names, pipes_names, made_up_prediction(), entry);
  return entry;
}

std::vector<double> values_of(const profiled& entry, const std::string& metric) {
  std::vector<double> found;
  int times = 0;
  for (const counter_values& c : entry.counters)
    if (c.metric == metric) found = c.values, ++times;
  CHECK_MESSAGE(times == 1, metric);
  return found;
}

bool all_missing(const std::vector<double>& values) {
  return values.size() == 2 && std::isnan(values[0]) && std::isnan(values[1]);
}

bool has_fault(const profiled& entry, const std::string& kind, const std::string& part) {
  for (const run_fault& f : entry.faults)
    if (f.kind == kind && f.sentence.find(part) != std::string::npos) return true;
  return false;
}

/// An environment variable for as long as this lives.
struct environment {
  std::string name, before;
  bool was_set;
  environment(const char* variable, const std::string& value)
      : name(variable),
        before(::getenv(variable) ? ::getenv(variable) : ""),
        was_set(::getenv(variable) != nullptr) {
    ::setenv(variable, value.c_str(), 1);
  }
  ~environment() { was_set ? ::setenv(name.c_str(), before.c_str(), 1) : ::unsetenv(name.c_str()); }
};

struct registered {
  std::vector<op> saved = registry();
  explicit registered(op of) { registry() = {std::move(of)}; }
  ~registered() { registry() = saved; }
};

/// A tree with a source, ceilings, and on request a prediction and a verify record of the fake op's
/// one problem of suite llm, all of which fit each other.
struct profile_tree {
  scratch_tree tree{"profile"};
  environment root{"CAPSTONE_ROOT", tree.str()};
  environment ncu{"NCU", tree.str() + "/no-such-profiler"};
  registered guard{fake_op({fake_kernel("", capstone::tests::fake::fault::none)})};
  std::string folder = tree.str() + "/evidence/h200";
  device where;
  selection wanted;
  profile_options options;

  profile_tree() {
    atomic_write(tree.str() + "/include/capstone/fake.cuh", "int fake;\n");
    atomic_write(folder + "/ceilings.yaml", "made up\n");
    where.id = "h200";
    where.limits = {90, 132, 62914560};
    where.ordinal = 0;
    wanted.out = tree.str();
    wanted.suites = {"llm"};
  }
  std::string predict() {
    prediction p = made_up_prediction();
    p.config = {{"lanes", "32"}};
    p.source = source_fingerprint(tree.str(), "capstone/fake.cuh");
    p.ceilings = file_digest(folder + "/ceilings.yaml");
    const std::string path = folder + "/" + prediction_path(p.kernel, p.dtype, p.what, 1);
    atomic_write(path, write_prediction(p));
    return path;
  }
  void verify() {
    verify_record record{this_run(), {}, "fake", "bf16", "", {}};
    record.problems.push_back(
        {"llm", {"rows=64,cols=96", ""}, "default", false, {{"lanes", "32"}}, "", {}});
    atomic_write(verify_path(tree.str(), "h200", registry()[0].kernels[0]), write_verify(record));
  }
  /// A program that answers like the profiler: its report holds 5 calls of `kernel`, and the
  /// profiled program's output is `printed`.
  void install_profiler(const std::string& kernel, const std::string& printed) {
    const std::string bin = tree.str() + "/ncu";
    atomic_write(bin, R"sh(#!/bin/sh
here=$(dirname "$0")
case "$1" in
  --query-metrics) cat ")sh" CAPSTONE_SOURCE_DIR R"sh(/tests/cpu/fixtures/ncu/query_gh100.txt"; exit 0 ;;
  --version) echo "Version 2025.3.1.0 (build 36398880)"; exit 0 ;;
  --help) sed 's/^/  /' "$here/options"; exit 0 ;;
  --import) case "$2" in *core*) cat "$here/core.csv" ;; *) cat "$here/pipes.csv" ;; esac; exit 0 ;;
esac
echo "$@" >> "$here/arguments"
while [ $# -gt 0 ]; do
  case "$1" in --log-file) cp "$here/log" "$2" ;; --export) : > "$2.ncu-rep" ;; esac
  shift
done
cat "$here/printed"
)sh");
    std::filesystem::permissions(bin, std::filesystem::perms::owner_all);
    ::setenv("NCU", bin.c_str(), 1);  // `ncu` above puts back what was there before
    std::string known, log;
    for (const char* o : {"config-file", "rename-kernels", "target-processes", "profile-from-start",
                          "kernel-name-base", "replay-mode", "graph-profiling", "cache-control",
                          "clock-control", "apply-rules", "import-sass", "disable-extra-suffixes",
                          "check-exit-code", "metrics", "log-file", "force-overwrite", "export"})
      known += "--" + std::string(o) + " arg\n";
    for (int i = 0; i < 2 * 5; ++i)
      log += "==PROF== Profiling \"k\" - " + std::to_string(i) + ": 0%....50%....100% - 1 pass\n";
    atomic_write(tree.str() + "/options", known);
    atomic_write(tree.str() + "/log", log);
    atomic_write(tree.str() + "/printed", printed);
    atomic_write(tree.str() + "/core.csv", report(kernel, core_metrics(90)));
    atomic_write(tree.str() + "/pipes.csv", report(kernel, pipes_metrics(90)));
  }
  static std::string report(const std::string& kernel, const std::vector<std::string>& metrics) {
    const auto unit_of = [](const std::string& m) {
      const auto has = [&m](const char* part) { return m.find(part) != std::string::npos; };
      return has(".pct")         ? "%"
             : has("bytes")      ? "byte"
             : has("duration")   ? "ns"
             : has("per_second") ? "hz"
             : has("shared_mem") ? "byte/block"
                                 : "";
    };
    const auto line = [](std::vector<std::string> words) {
      std::string text;
      for (const std::string& word : words) text += (text.empty() ? "\"" : ",\"") + word + "\"";
      return text;
    };
    std::string header = line({"ID", "Kernel Name", "Stream", "Block Size", "Grid Size"});
    std::string units = line({"", "", "", "", ""}), numbers, rows;
    for (const std::string& m : metrics) {
      header += "," + line({m});
      units += "," + line({unit_of(m)});
      numbers += "," + line({m == "dram__bytes.sum"                ? "120,000,000"
                             : m == "launch__registers_per_thread" ? "40"
                                                                   : "20"});
    }
    for (int i = 0; i < 5; ++i) {
      const std::string id = std::to_string(2 * i), next = std::to_string(2 * i + 1);
      rows += line({id, marker_symbol, "13", "(1, 1, 1)", "(1, 1, 1)"}) + numbers + "\n";
      rows += line({next, kernel, "13", "(256, 1, 1)", "(64, 1, 1)"}) + numbers + "\n";
    }
    return header + "\n" + units + "\n" + rows;
  }
  profiled only_problem() const {
    const profile_record record = read_profile(profiles().at(0));
    std::filesystem::remove_all(
        std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "profile" /
        record.run.session);
    return record.problems.at(0);
  }
  std::vector<std::string> profiles() const {
    std::vector<std::string> found;
    std::error_code none;
    for (const auto& file : std::filesystem::directory_iterator(folder + "/profiles", none))
      found.push_back(file.path().string());
    return found;
  }
};

}  // namespace

TEST_CASE("profile: rows between two markers are one call's") {
  const report_calls report = two_problems().done().calls;
  REQUIRE(report.calls.size() == 4);
  CHECK(report.stray == 0);
  CHECK(report.calls[0].rows == std::vector<std::size_t>{1});
  CHECK(report.calls[3].rows == std::vector<std::size_t>{7});
  CHECK(why_not_split(report, 2, 2) == "");
  CHECK(why_not_split(report, 2, 3) == "the report holds 4 markers; expected 6");
  report_builder early(core_names);
  early.add("x").add("m").add("a");
  CHECK(why_not_split(early.done().calls, 1, 1) ==
        "the report holds 1 kernels before the first marker; expected none");
}

TEST_CASE("profile: each problem gets its own calls' kernels and counters") {
  const told_run core = two_problems().done();
  const profiled first = filled(core), second = filled(core, nullptr, 1);
  CHECK(first.seen.symbols == std::vector<std::string>{"a"});
  CHECK(second.seen.symbols == std::vector<std::string>{"b"});
  CHECK(first.seen.kernels == 1);
  CHECK(first.seen.grid == 64);
  CHECK(first.seen.block == 256);
  CHECK(first.seen.streams == 0);
  CHECK(first.launches == 2);
  CHECK(first.core_passes == 1);
  CHECK(values_of(first, "dram__bytes.sum") == std::vector<double>{100, 101});
  CHECK(values_of(second, "dram__bytes.sum") == std::vector<double>{200, 201});
  CHECK(values_of(second, "sm__busy.avg.pct") == std::vector<double>{60, 61});
  CHECK(first.faults.empty());
}

TEST_CASE("profile: two kernels in a call are seen, and counted together") {
  report_builder report(core_names);
  report.add("m")
      .add("a", {10, 100, 50, 40})
      .add("b", {30, 50, 90, 32})
      .add("m")
      .add("a", {10, 100, 50, 40})
      .add("b", {30, 50, 90, 32});
  const profiled entry = filled(report.done());
  CHECK(entry.seen.kernels == 2);
  CHECK(entry.seen.symbols == std::vector<std::string>{"a", "b"});
  CHECK(values_of(entry, "dram__bytes.sum") == std::vector<double>{150, 150});
  CHECK(values_of(entry, "sm__busy.avg.pct") ==
        std::vector<double>{80, 80});  // by the time of each
  CHECK(values_of(entry, "launch__registers.max") == std::vector<double>{40, 40});
}

TEST_CASE("profile: a call that launches nothing, because its result was kept, is INVALID") {
  report_builder sometimes(core_names);
  sometimes.add("m").add("a").add("m");
  const profiled entry = filled(sometimes.done());
  CHECK(has_fault(entry, "INVALID", "differing numbers of kernels: [1, 0]"));
  CHECK(std::isnan(values_of(entry, "dram__bytes.sum").at(1)));
  report_builder never(core_names);
  never.add("m").add("m");
  CHECK(has_fault(filled(never.done()), "INVALID", "no call launched a kernel"));
}

TEST_CASE("profile: work on another stream, other sizes and other kernels are seen") {
  report_builder report(core_names);
  report.add("m").add("a", {}, "14").add("m").add("c", {}, "13", 65);
  const profiled entry = filled(report.done());
  CHECK(entry.seen.streams == 1);
  CHECK(entry.seen.symbols == std::vector<std::string>{"a", "c"});
  CHECK(has_fault(entry, "INVALID", "differing sizes"));
  report_builder same(core_names), other(pipes_names);
  same.add("m").add("a").add("m").add("a");
  other.add("m").add("b").add("m").add("a");
  CHECK(has_fault(filled(same.done(), &other.done()), "INVALID",
                  "the second run of the profiler saw other kernels"));
}

TEST_CASE("profile: core metrics that took several passes are INCONCLUSIVE, and kept") {
  report_builder report(core_names);
  report.add("m")
      .add("a", {10, 100, 50, 40}, "13", 64, 1)
      .add("m")
      .add("a", {10, 100, 50, 40}, "13", 64, 2);
  const profiled entry = filled(report.done());
  CHECK(entry.core_passes == 2);
  CHECK(has_fault(entry, "INCONCLUSIVE", "took 2 passes; expected 1"));
  CHECK(values_of(entry, "dram__bytes.sum") == std::vector<double>{100, 100});
  report.run.result.passes.pop_back();
  CHECK(has_fault(filled(report.done()), "INCONCLUSIVE", "does not tell the passes"));
}

TEST_CASE("profile: a metric that is not in the report stays in the record, without numbers") {
  const std::vector<std::string> fewer = {"gpu__time_duration.sum", "dram__bytes.sum"};
  const told_run core = two_problems(fewer).done();
  const profiled entry = filled(core);
  CHECK(all_missing(values_of(entry, "sm__busy.avg.pct")));
  CHECK(all_missing(
      values_of(entry, "sm__throughput.avg.pct_of_peak_sustained_elapsed")));  // that run failed
  CHECK(all_missing(values_of(
      entry, "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum")));  // predicted, never asked for
  CHECK(values_of(entry, "gpu__time_duration.sum") == std::vector<double>{10, 11});
  report_builder pipes(pipes_names);
  pipes.add("m").add("a", {20.5, 99}).add("m").add("a", {std::nan(""), 99});
  pipes.add("m").add("b").add("m").add("b");
  const profiled both = filled(core, &pipes.done());
  CHECK(values_of(both, "sm__throughput.avg.pct_of_peak_sustained_elapsed").at(0) == 20.5);
  CHECK(std::isnan(values_of(both, "sm__throughput.avg.pct_of_peak_sustained_elapsed").at(1)));
  CHECK(values_of(both, "gpu__time_duration.sum") ==
        std::vector<double>{10, 11});  // the core run's
}

TEST_CASE("profile: what the profiled program says of its outputs") {
  const std::vector<std::string> names = {"fake bf16 rows=1,cols=2", "fake bf16 rows=3,cols=4",
                                          "fake bf16 rows=5,cols=6"};
  const std::string output =
      "noise\n" + harness_line(names[0], "") + "more noise\n" + harness_line(names[1], "y is\noff");
  const std::vector<std::string> faults = harness_faults(output, names);
  REQUIRE(faults.size() == 3);
  CHECK(faults[0] == "");
  CHECK(faults[1] == "y is off");
  CHECK(faults[2].find("does not say") != std::string::npos);  // it ended early
  const std::vector<std::string> swapped =
      harness_faults(harness_line(names[1], "") + harness_line(names[0], ""), {names[0], names[1]});
  CHECK(swapped[0] != "");
  CHECK(swapped[1] != "");
}

TEST_CASE("profile: counters that only administrators may read") {
  const std::string restricted = "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n";
  CHECK(why_counters_denied(restricted, true) == "");
  CHECK(why_counters_denied(restricted, false).find("NVreg_RestrictProfilingToAdminUsers=0") !=
        std::string::npos);
  CHECK(why_counters_denied("RmProfilingAdminOnly: 0\n", false) == "");
  CHECK(why_counters_denied("", false) == "");
}

TEST_CASE("profile: refuses fewer than five launches, and the host") {
  profile_tree t;
  t.options.launches = 4;
  CHECK_THROWS_WITH_AS(profile(t.wanted, t.options, t.where), "launches is 4; expected 5 or more",
                       std::invalid_argument);
  t.options.launches = 5;
  CHECK(profile(t.wanted, t.options, open_device("host")) == 2);
}

TEST_CASE(
    "profile: refuses without a current prediction or a passed verify, and leaves no record") {
  profile_tree t;
  CHECK(profile(t.wanted, t.options, t.where) == 2);  // neither
  t.verify();
  CHECK(profile(t.wanted, t.options, t.where) == 2);  // no prediction
  t.predict();
  SUBCASE("the source changed") {
    atomic_write(t.tree.str() + "/include/capstone/fake.cuh", "int other;\n");
    CHECK(profile(t.wanted, t.options, t.where) == 2);
  }
  SUBCASE("the ceilings changed") {
    atomic_write(t.folder + "/ceilings.yaml", "edited\n");
    CHECK(profile(t.wanted, t.options, t.where) == 2);
  }
  SUBCASE("verify was of another program") {
    std::filesystem::remove_all(t.folder + "/verify");
    CHECK(profile(t.wanted, t.options, t.where) == 2);
  }
  SUBCASE("another problem of the selection has none") {
    t.wanted.suites.clear();
    t.wanted.shapes = {"64x96", "65x96"};
    CHECK(profile(t.wanted, t.options, t.where) == 2);
  }
  CHECK(t.profiles().empty());
}

TEST_CASE("profile: without a profiler the record is INCONCLUSIVE and says why") {
  profile_tree t;
  const std::string predicted = t.predict();
  t.verify();
  CHECK(profile(t.wanted, t.options, t.where) == 4);
  REQUIRE(t.profiles().size() == 1);
  const profile_record record = read_profile(t.profiles()[0]);
  REQUIRE(record.problems.size() == 1);
  const profiled& p = record.problems[0];
  CHECK(p.verdict == "INCONCLUSIVE");
  REQUIRE(p.faults.size() == 1);
  CHECK(p.faults[0].sentence != "the run did not finish");
  CHECK(p.prediction_path == "predictions/fake.bf16/rows=64,cols=96.1.yaml");
  CHECK(p.prediction_sha256 == file_digest(predicted));
}

TEST_CASE("profile: an unverified one goes on when asked to, and is INVALID") {
  profile_tree t;
  t.predict();
  t.options.unverified = true;
  CHECK(profile(t.wanted, t.options, t.where) == 3);
  REQUIRE(t.profiles().size() == 1);
  const profiled p = read_profile(t.profiles()[0]).problems.at(0);
  CHECK(p.verdict == "INVALID");
  CHECK(p.faults.at(0).sentence.starts_with("not verified: "));
}

TEST_CASE("profile: runs the profiler twice over this program, and keeps what it counted") {
  profile_tree t;
  t.predict();
  t.verify();
  t.install_profiler("_Z5entryv", harness_line("fake bf16 rows=64,cols=96", ""));
  // The fake op has no call on a GPU, so its time is missing, and nothing else is.
  CHECK(profile(t.wanted, t.options, t.where) != 0);
  const profiled p = t.only_problem();
  CHECK(p.core_passes == 1);
  CHECK(p.pipes_passes == 1);
  CHECK(p.launches == 5);
  CHECK(p.seen.symbols == std::vector<std::string>{"_Z5entryv"});
  CHECK(p.seen.grid == 64);
  for (const counter_values& c : p.counters)
    if (c.metric == "dram__bytes.sum") CHECK(c.values == std::vector<double>(5, 120000000));
  REQUIRE(p.faults.size() == 1);
  CHECK(p.faults[0].sentence.starts_with("it could not be timed: "));
  for (const claim_verdict& v : p.verdicts)
    if (v.claim == "dram__bytes.sum" || v.claim == "identity") CHECK(v.verdict == "CONFIRMED");
  const std::string asked = read_text(t.tree.str() + "/arguments");
  CHECK(asked.find("launch-for-profiler --launches 5 --device 0 --seed 1 --suite llm\n") !=
        std::string::npos);
  CHECK(asked.find(core_metrics(90).front()) != std::string::npos);
  CHECK(asked.find(pipes_metrics(90).front()) != std::string::npos);
}

TEST_CASE("profile: a wrong output or a lost call under the profiler is INVALID") {
  profile_tree t;
  t.predict();
  t.verify();
  t.install_profiler("_Z5entryv", harness_line("fake bf16 rows=64,cols=96", "y is off"));
  SUBCASE("a wrong output") {
    CHECK(profile(t.wanted, t.options, t.where) == 3);
    CHECK(
        has_fault(t.only_problem(), "INVALID", "the output is wrong under the profiler: y is off"));
  }
  SUBCASE("other launches than were asked for") {
    t.options.launches = 6;
    CHECK(profile(t.wanted, t.options, t.where) == 3);
    CHECK(has_fault(t.only_problem(), "INVALID", "the report holds 5 markers; expected 6"));
  }
  SUBCASE("counters that are denied") {
    atomic_write(t.tree.str() + "/log",
                 "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n");
    CHECK(profile(t.wanted, t.options, t.where) == 4);
    CHECK(has_fault(t.only_problem(), "INCONCLUSIVE", "RmProfilingAdminOnly"));
  }
}
