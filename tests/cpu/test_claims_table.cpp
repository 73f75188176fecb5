// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Records, verdicts and the table of `claims`, from made-up samples.

#include <doctest/doctest.h>

#include <limits>

#include "claims/bench.hpp"
#include "claims/race_table.hpp"
#include "claims/table.hpp"
#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;

namespace {

arm_row arm_of(const char* name, double ms, ratio_band speedup) {
  return {name, "1", ms, ms * 0.99, ms * 1.01, speedup};
}

/// 134 MB moved in 33 us at 4096 columns; the floor is 2 % quicker, the rival 10 % slower.
comparison example() {
  comparison c;
  c.kernel = "fake";
  c.dtype = "bf16";
  c.rounding = "once, to nearest even";
  c.what = {"rows=4096,cols=4096", ""};
  c.match = "exact";
  c.config = {{"lanes", "32"}, {"hold", "packed"}};
  c.bytes = 134'000'000;
  c.timer = "graph";
  c.rounds = 40;
  c.calls_per_sample = 8;
  c.sets = 4;
  c.sm_mhz = {1900, 1980, 1980};
  c.watts = 412.5;
  c.other_processes = 0;
  c.floor_target = {1.02, 1.015, 1.025};
  c.arms = {{own_name, "", 0.033, 0.0329, 0.0331, {}},
            arm_of(twin_name, 0.033, {1.0, 0.999, 1.001}),
            arm_of("textbook", 0.0363, {1.1, 1.09, 1.11}),
            arm_of(floor_name, 0.03235, {0.9804, 0.9756, 0.9852})};
  return c;
}

session_record session_of(const comparison& c) {
  session_record record;
  record.run = {"20260102T030405Z-00c0ffee",
                "2026-01-02T03:04:05Z",
                "abc",
                false,
                "sha256:1",
                "13.0.88",
                "-O3"};
  record.device = {"h200", "NVIDIA H200", "9.0", 132, 62914560, "580.1"};
  record.seed = 1;
  record.comparisons = {c};
  return record;
}

ratio_band& twin_of(comparison& c) { return *c.arms[1].speedup; }

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("claims: a comparison is void only when its whole A/A interval is off by 0.5 %") {
  comparison c = example();
  CHECK_FALSE(c.is_void());
  twin_of(c) = {1.006, 1.0049, 1.007};
  CHECK_FALSE(c.is_void());
  twin_of(c) = {1.006, 1.0051, 1.007};
  CHECK(c.is_void());
  CHECK(fast_verdict({1.2, 1.1, 1.3}, c) == "INVALID");
  CHECK(floor_verdict(c) == "INVALID");
  twin_of(c) = {0.99, 0.98, 0.9951};
  CHECK_FALSE(c.is_void());
  twin_of(c) = {0.99, 0.98, 0.9949};
  CHECK(c.is_void());
}

TEST_CASE("claims: faster is claimed beyond what the twin strayed, slower when all of it is") {
  comparison c = example();
  twin_of(c) = {1.0, 0.998, 1.001};
  CHECK(fast_verdict({1.01, 1.0021, 1.02}, c) == "CONFIRMED");
  CHECK(fast_verdict({1.01, 1.0019, 1.02}, c) == "INCONCLUSIVE");
  CHECK(fast_verdict({0.999, 0.99, 1.0}, c) == "INCONCLUSIVE");
  CHECK(fast_verdict({0.99, 0.98, 0.9999}, c) == "REFUTED");
  c.timer = "host";  // whose times claim nothing
  CHECK(fast_verdict({0.99, 0.98, 0.9999}, c) == "INCONCLUSIVE");
  CHECK(floor_verdict(c) == "INCONCLUSIVE");
}

TEST_CASE("claims: the floor's target depends on columns and bytes") {
  comparison c = example();
  c.floor_target = {1.02, 1.01, 1.03};
  CHECK(floor_verdict(c) == "CONFIRMED");
  c.floor_target = {1.03, 1.02, 1.0301};
  CHECK(floor_verdict(c) == "INCONCLUSIVE");
  c.floor_target = {1.04, 1.0301, 1.045};
  CHECK(floor_verdict(c) == "REFUTED");
  c.what.shape = "rows=8,cols=16384";
  CHECK(floor_verdict(c) == "REFUTED");
  c.what.shape = "rows=8,cols=32768";
  CHECK(floor_verdict(c) == "CONFIRMED");
  c.bytes = 66'999'999;
  c.floor_target = {2, 2, 2};
  CHECK(floor_verdict(c) == "INCONCLUSIVE");
}

TEST_CASE("claims: a session's record reads back, and only as it was written") {
  const scratch_tree tree("session");
  const std::string path = tree.str() + "/s.yaml";
  const std::string text = write_session(session_of(example()));
  atomic_write(path, text);
  CHECK(write_session(read_session(path)) == text);
  for (const auto& [from, to] : {std::pair{"void: false", "void: true"},
                                 {"voids: 0", "voids: 1"},
                                 {"flushed: false", "flushed: false, hot: false"},
                                 {"watts: 412.5", "watts: 412.5\n    watts: 1"},
                                 {"capstone-session/1", "capstone-session/2"},
                                 {"\"floor\"", "\"ceiling\""}}) {
    CAPTURE(to);
    atomic_write(path, replaced(text, from, to));
    CHECK_THROWS_AS(read_session(path), record_error);
  }
}

TEST_CASE("claims: a race against other libraries reads back, stands in a table of its own and is scored") {
  comparison c = example();
  for (arm_row& arm : c.arms)
    if (arm.name != floor_name) arm.kernels = {"a_kernel"};
  c.arms[2].do_bench_ms = 0.05;
  c.suite = "llm";
  c.absent = {{"apex", "", "not installed"}};
  const scratch_tree tree("race");
  const std::string path = tree.str() + "/s.yaml", text = write_session(session_of(c));
  atomic_write(path, text);
  CHECK(write_session(read_session(path)) == text);
  comparison lost = c, empty = example();
  lost.what.shape = "rows=8192,cols=4096";
  lost.arms[2].speedup = ratio_band{0.9, 0.89, 0.91};
  session_record both = session_of(c);
  both.comparisons = {c, lost, empty};
  const auto scores = scores_of({both});
  REQUIRE(scores.size() == 2);
  CHECK(scores[0].peer == "textbook");
  CHECK(scores[0].wins == 1);
  CHECK(scores[0].losses == 1);
  CHECK(scores[0].worst == 0.9);
  CHECK(scores[0].worst_shape == "rows=8192,cols=4096");
  CHECK(scores[1].peer == "floor");
  CHECK(scores[1].wins == 2);
  CHECK(race_markdown({session_of(example())}).empty());
  CHECK(markdown({both}).find("8192") == std::string::npos);
  twin_of(both.comparisons[1]) = {1.02, 1.01, 1.03};  // a void race claims nothing
  CHECK(scores_of({both})[0].losses == 0);
}

TEST_CASE("claims: a verify record reads back, infinities capped, and its verdict is computed") {
  const scratch_tree tree("verify");
  const std::string path = tree.str() + "/v.yaml";
  check_result r;
  r.output = "y";
  r.count = 10;
  r.failures = 1;
  r.worst_ratio = std::numeric_limits<double>::infinity();
  r.actual = std::numeric_limits<double>::quiet_NaN();
  r.expected = 1.5;
  verify_record record;
  record.kernel = "fake";
  record.dtype = "bf16";
  record.problems = {
      {"edge", {"rows=1,cols=2", "pad=1"}, "default", true, {{"lanes", "32"}}, "", {recorded(r)}},
      {"edge", {"rows=0,cols=2", ""}, "exact", false, {{"lanes", "32"}}, "", {}}};
  const std::string text = write_verify(record);
  atomic_write(path, text);
  const verify_record back = read_verify(path);
  CHECK(write_verify(back) == text);
  CHECK_FALSE(back.problems.at(0).passed());
  CHECK(back.problems.at(1).passed());
  atomic_write(path, replaced(text, "passed: false", "passed: true"));
  CHECK_THROWS_AS(read_verify(path), record_error);
}

TEST_CASE("claims: samples become medians, paired ratios and the quickest floor") {
  timing timed{timer_kind::events, 9, 3, false, {}};
  timed.arms = {{own_name, {100, 200, 300}, {1500, 1600, 1700}, {1, 2, 3}},
                {twin_name, {100, 200, 300}, {}, {}},
                {"rival", {120, 240, 360}, {}, {}},
                {"u1", {99, 198, 297}, {}, {}},
                {"u2", {90, 180, 270}, {}, {}}};
  comparison c;
  summarise(timed, {"u1", "u2"}, 1, c);
  REQUIRE(c.arms.size() == 4);
  CHECK(c.find(own_name)->ms == doctest::Approx(0.2));
  CHECK(c.find("rival")->speedup->median == doctest::Approx(1.2));
  CHECK(c.find("rival")->speedup->low == doctest::Approx(1.2));  // drift cancels within a round
  CHECK(c.find(floor_name)->version == "u2");
  CHECK(c.floor_target.median == doctest::Approx(1 / 0.9).epsilon(1e-4));
  CHECK(c.sm_mhz == std::vector<std::int64_t>{1500, 1600, 1700});
  CHECK(c.watts == 2);
  CHECK(c.timer == "events");
  CHECK_THROWS_AS(summarise(timed, {"u3"}, 1, c), std::invalid_argument);
}

TEST_CASE("claims: the table's columns") {
  const std::string common = "h200\tfake\tbf16\trows=4096,cols=4096\t4096\t4096\t";
  const std::string end = "\t20260102T030405Z-00c0ffee\th200/sessions/s.yaml\n";
  CHECK(
      tsv(rows_of(session_of(example()), "h200/sessions/s.yaml")) ==
      "device\tkernel\tdtype\tshape\trows\tcols\tclaim\tverdict\tvalue\tunit\tlow\thigh\tbaseline\t"
      "session\trecord\n" +
          common + "time\t-\t0.033\tms\t0.0329\t0.0331\tcapstone" + end + common +
          "time\t-\t0.033\tms\t0.03267\t0.03333\tcapstone A/A twin" + end + common +
          "time\t-\t0.0363\tms\t0.03594\t0.03666\ttextbook" + end + common +
          "fast\tCONFIRMED\t1.1\tx\t1.09\t1.11\ttextbook" + end + common +
          "time\t-\t0.03235\tms\t0.03203\t0.03267\tfloor" + end + common +
          "fast\tCONFIRMED\t0.9804\tx\t0.9756\t0.9852\tfloor" + end);

  verify_record record;
  record.run.session = "s";
  record.device.id = "h200";
  record.kernel = "fake";
  record.dtype = "bf16";
  check_result r;
  r.worst_ratio = 0.25;
  record.problems = {{"edge", {"rows=3,cols=17", "offset=1"}, "exact", false, {}, "", {r}}};
  CHECK(tsv(rows_of(record, "v.yaml"))
            .ends_with("h200\tfake\tbf16\trows=3,cols=17 "
                       "offset=1\t3\t17\tcorrect\tCONFIRMED\t0.25\terror/bound\t-\t-\t"
                       "float64\ts\tv.yaml\n"));
  record.problems[0].fault = "row 2 was not written";
  CHECK(rows_of(record, "v.yaml")[0].verdict == "REFUTED");
}

TEST_CASE("claims: the summary puts losses first and counts the voids") {
  session_record session = session_of(example());
  comparison loss = example();
  loss.what.shape = "rows=1,cols=8192";
  loss.arms[2].speedup = ratio_band{0.9, 0.89, 0.91};
  comparison nothing = example();
  twin_of(nothing) = {1.1, 1.09, 1.11};
  session.comparisons = {example(), loss, nothing};
  const std::string text = markdown({session});
  CHECK(text.find("1 of 2 shapes lose") != std::string::npos);
  CHECK(text.find("1 comparisons were void") != std::string::npos);
  CHECK(text.find("**0.900 [0.890, 0.910]**") != std::string::npos);
  CHECK(text.find("rows=1,cols=8192") < text.find("rows=4096,cols=4096"));
}
