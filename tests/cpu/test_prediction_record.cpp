// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Predictions and profiles on file: round trips, strictness, which prediction is the newest.

#include <doctest/doctest.h>

#include <cmath>

#include "claims/profile_rows.hpp"
#include "tests/cpu/faulty_scale.hpp"
#include "tests/cpu/prediction_example.hpp"

using namespace capstone::claims;
using capstone::tests::made_up_digest;
using capstone::tests::made_up_prediction;
using capstone::tests::fake::scratch_tree;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

/// What reading the example says once `from` is `to` in its text.
std::string complaint(const std::string& from, const std::string& to,
                      const char* schema = prediction_schema) {
  prediction p = made_up_prediction();
  p.schema = schema;
  try {
    parse_prediction(replaced(write_prediction(p), from, to), "p.yaml");
  } catch (const record_error& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

profile_record made_up_profile() {
  profile_record record;
  record.run = {"20260102T030405Z-00c0ffee",
                "2026-01-02T03:04:05Z",
                "abc",
                false,
                "sha256:1",
                "13.0.88",
                "-O3"};
  record.device = made_up_prediction().device;
  record.ncu = "2025.3.1.0 (build 36398880)";
  record.options = {"ncu --clock-control none claims launch-for-profiler"};
  record.seed = 1;
  profiled p;
  p.kernel = "fake";
  p.dtype = "bf16";
  p.what = {"rows=64,cols=96", "pad=2"};
  p.config = {{"lanes", "32"}};
  p.prediction_path = "predictions/fake.bf16/rows=64,cols=96,pad=2.1.yaml";
  p.prediction_sha256 = made_up_digest('a');
  p.core_passes = 1;
  p.pipes_passes = 8;
  p.launches = 3;
  p.l2 = "cold";
  p.seen = {{"_Z5entryv"}, 1, 64, 256, 0};
  p.time_us = {33, 32.5, 33.5};
  p.floor_us = {32, 31.5, 32.5};
  p.counters = {{"dram__bytes.sum", "byte", {134217728, std::nan(""), 134217760}}};
  p.faults = {{"INCONCLUSIVE", "a counter: is missing"}};
  p.verdicts = {{"time", "CONFIRMED", 33, 31.9, 34.3, ""},
                {"dram__bytes.sum", "REFUTED", 1, 2, 3, "too few"}};
  p.verdict = "REFUTED";
  p.story = "bytes too few";
  p.next = "look";
  record.problems = {p};
  return record;
}

std::string profile_complaint(const std::string& from, const std::string& to) {
  const scratch_tree tree("profile-record");
  atomic_write(tree.str() + "/p.yaml", replaced(write_profile(made_up_profile()), from, to));
  try {
    read_profile(tree.str() + "/p.yaml");
  } catch (const record_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("prediction: what is written reads back to the same bytes") {
  const std::string text = write_prediction(made_up_prediction());
  const prediction back = parse_prediction(text, "p.yaml");
  CHECK(write_prediction(back) == text);
  CHECK(back.what == made_up_prediction().what);
  CHECK(back.config == made_up_prediction().config);
  CHECK(back.counters.size() == 3);
  CHECK(back.counters[0].high == 135000000);
  CHECK(back.terms[1].formula == "1000 \"warps\"");
  CHECK(back.launch.symbol == "_Z5entryv");
  CHECK(back.rivals[0].shows == made_up_prediction().rivals[0].shows);
  CHECK(back.rivals[0].excluded_by == std::vector<std::string>{"dram__bytes.sum"});
  REQUIRE(back.find("dram__bytes.sum") != nullptr);
  CHECK(back.find("dram__bytes.sum")->value == 134217728);
  CHECK(back.find("dram__bytes_read.sum") == nullptr);
}

TEST_CASE("prediction: the reader is strict") {
  CHECK(complaint("model: \"full\"", "model: \"full\"") == "");
  CHECK(has(complaint("prior_profiles: 2", "prior_profiles: 2\nmargin_of_error: 3"),
            "unknown key 'margin_of_error'"));
  CHECK(has(complaint("date:", "day:"), "no key 'date'"));
  CHECK(has(complaint("capstone-prediction/2", "capstone-prediction/3"),
            "\"capstone-prediction/2\" or \"capstone-prediction/1\""));
  CHECK(has(complaint("model: \"full\"", "model: \"half\""), "\"full\" or \"memory only\""));
  CHECK(has(complaint("l2: \"cold\"", "l2: \"hot\""), "\"cold\""));
  CHECK(has(complaint("sha256:ccc", "sha256:CCC"), "64 lowercase hex digits"));
  CHECK(has(complaint("supersedes: \"\"", "supersedes: \"" + made_up_digest('1') + "\""),
            "a reason"));
  CHECK(has(complaint("low: 100000000", "low: 134217729"), "a number from low to high"));
  CHECK(has(complaint("expected: 33.1", "expected: 35"), "a time from low to high"));
  CHECK(has(complaint("physics: 28.1", "physics: 33.2"), "at most what is expected"));
  CHECK(has(complaint("second: \"issue\"", "second: \"l2\""), "the name of a term"));
  CHECK(has(complaint("excluded_by: [\"dram__bytes.sum\"]", "excluded_by: [\"dram__bytes\"]"),
            "a metric that is predicted"));
  CHECK(has(complaint("metric: \"sm__throughput.avg.pct_of_peak_sustained_elapsed\"",
                      "metric: \"dram__bytes.sum\""),
            "did not come before"));
  CHECK(has(complaint("kernels: 1", "kernels: 0"), "kernels"));
}

TEST_CASE(
    "prediction: a rival story's values are in the newer schema, all of them, and never in the "
    "older") {
  CHECK(has(complaint("shows: [{metric: \"dram__bytes.sum\", value: 268435456}], ", ""),
            "no key 'shows'"));
  CHECK(has(complaint("shows: [{metric: \"dram__bytes.sum\", value: 268435456}]", "shows: []"),
            "the value of at least one metric"));
  CHECK(has(complaint("shows: [{metric: \"dram__bytes.sum\"", "shows: [{metric: \"dram__bytes\""),
            "a metric that is predicted"));
  CHECK(has(complaint("value: 268435456}]", "value: 268435456, unit: \"byte\"}]"),
            "unknown key 'rivals[0].shows[0].unit'"));
  CHECK(has(complaint("schema: \"capstone-prediction/2\"", "schema: \"capstone-prediction/1\""),
            "unknown key 'rivals[0].shows'"));
  prediction older = made_up_prediction();
  older.schema = older_prediction_schema;
  const std::string text = write_prediction(older);
  CHECK(!has(text, "shows"));
  CHECK(write_prediction(parse_prediction(text, "p.yaml")) == text);
  CHECK(has(complaint("capstone-prediction/1", "capstone-prediction/2", older_prediction_schema),
            "no key 'shows'"));
}

TEST_CASE("prediction: a digest changes with any byte of the file") {
  const scratch_tree tree("digest");
  const std::string path = tree.str() + "/p.yaml", text = write_prediction(made_up_prediction());
  atomic_write(path, text);
  const std::string before = file_digest(path);
  CHECK(before.size() == 71);
  CHECK(before.starts_with("sha256:"));
  atomic_write(path, replaced(text, "high: 135000000", "high: 135000001"));
  CHECK(file_digest(path) != before);
  atomic_write(path, text);
  CHECK(file_digest(path) == before);
}

TEST_CASE("prediction: the newest is the one with the largest number, 10 after 9") {
  const scratch_tree tree("newest");
  const std::string folder = tree.str() + "/evidence/h200";
  const prediction p = made_up_prediction();
  CHECK(find_newest_prediction(folder, p.kernel, p.dtype, p.what).n == 0);
  CHECK(prediction_path(p.kernel, p.dtype, p.what, 3) ==
        "predictions/fake.bf16/rows=64,cols=96.3.yaml");
  CHECK(prediction_path(p.kernel, p.dtype, {"rows=3,cols=17", "offset=1 pad=2"}, 1) ==
        "predictions/fake.bf16/rows=3,cols=17,offset=1,pad=2.1.yaml");
  for (const int n : {1, 2, 9, 10}) {
    prediction next = p;
    next.prior_profiles = n;
    atomic_write(folder + "/" + prediction_path(p.kernel, p.dtype, p.what, n),
                 write_prediction(next));
  }
  // Neither another problem's, nor what only looks like one of its files.
  const std::string beside = folder + "/predictions/fake.bf16/rows=64,cols=96";
  for (const char* other : {"0.11.yaml", ".011.yaml", ".12.yaml.bak", ".x.yaml", ",pad=1.13.yaml"})
    atomic_write(beside + other, "not read");
  const newest_prediction newest = find_newest_prediction(folder, p.kernel, p.dtype, p.what);
  CHECK(newest.n == 10);
  CHECK(newest.content.prior_profiles == 10);
  CHECK(newest.path == "predictions/fake.bf16/rows=64,cols=96.10.yaml");
  CHECK(newest.digest == file_digest(folder + "/" + newest.path));
}

TEST_CASE("prediction: the newest of every problem and device") {
  const scratch_tree tree("newest-of-all");
  prediction p = made_up_prediction();
  const auto put = [&](const std::string& device, int n) {
    p.prior_profiles = n;
    atomic_write(tree.str() + "/" + device + "/" + prediction_path(p.kernel, p.dtype, p.what, n),
                 write_prediction(p));
  };
  put("h200", 1);
  put("h200", 2);
  p.what.shape = "rows=1,cols=96";
  put("h200", 1);
  put("sm80", 3);
  std::vector<std::string> found;
  for (const prediction& each : newest_predictions(tree.str()))
    found.push_back(each.what.shape + " " + std::to_string(each.prior_profiles));
  CHECK(found ==
        std::vector<std::string>{"rows=1,cols=96 1", "rows=64,cols=96 2", "rows=1,cols=96 3"});
  CHECK(newest_predictions(tree.str() + "/nothing").empty());
}

TEST_CASE("prediction: one that is not about what would be profiled is named with what differs") {
  newest_prediction newest;
  const prediction& p = newest.content = made_up_prediction();
  const prediction_key same{"h200", "fake", "bf16", p.what, p.config, p.source, p.ceilings};
  CHECK(has(why_not_predicted(newest, same),
            "has no prediction (predictions/fake.bf16/rows=64,cols=96.1.yaml)"));
  newest.n = 1;
  newest.path = prediction_path(p.kernel, p.dtype, p.what, 1);
  CHECK(why_not_predicted(newest, same) == "");
  const auto why = [&](auto change) {
    prediction_key other = same;
    change(other);
    return why_not_predicted(newest, other);
  };
  CHECK(has(why([](auto& k) { k.device = "sm80"; }), "for device h200, not sm80"));
  CHECK(has(why([](auto& k) { k.kernel = "fake+more"; }), "of fake bf16"));
  CHECK(has(why([](auto& k) { k.dtype = "f16"; }), "of fake bf16"));
  CHECK(has(why([](auto& k) { k.what.layout = "pad=2"; }), "of shape rows=64,cols=96"));
  CHECK(has(why([](auto& k) { k.config[0].second = "64"; }),
            "the library uses lanes=64,hold=packed"));
  CHECK(has(why([](auto& k) { k.source = made_up_digest('6'); }), "the source is now"));
  CHECK(has(why([](auto& k) { k.ceilings = made_up_digest('d'); }), "ceilings.yaml is now"));
}

TEST_CASE(
    "profile record: what is written reads back to the same bytes, a missing number as null") {
  const scratch_tree tree("profile-round-trip");
  const std::string path = tree.str() + "/p.yaml", text = write_profile(made_up_profile());
  atomic_write(path, text);
  CHECK(has(text, "values: [134217728, null, 134217760]"));
  const profile_record back = read_profile(path);
  CHECK(write_profile(back) == text);
  REQUIRE(back.problems.size() == 1);
  const profiled& p = back.problems[0];
  CHECK(std::isnan(p.counters.at(0).values.at(1)));
  CHECK(p.counters[0].values[2] == 134217760);
  REQUIRE(p.faults.size() == 1);
  CHECK(p.faults[0].kind == "INCONCLUSIVE");
  CHECK(p.faults[0].sentence == "a counter: is missing");
  CHECK(p.pipes_passes == 8);
  CHECK(p.seen.symbols == std::vector<std::string>{"_Z5entryv"});
  CHECK(p.what.layout == "pad=2");
}

TEST_CASE("profile record: the reader is strict") {
  CHECK(profile_complaint("seed: 1", "seed: 1") == "");
  CHECK(has(profile_complaint("seed: 1", "seed: 1\nmood: 2"), "unknown key 'mood'"));
  CHECK(has(profile_complaint("verdict: \"CONFIRMED\"", "verdict: \"FINE\""),
            "CONFIRMED, REFUTED, INCONCLUSIVE or INVALID"));
  CHECK(has(profile_complaint("    verdict: \"REFUTED\"", "    verdict: \"CONFIRMED\""),
            "REFUTED, the worst"));
  CHECK(has(profile_complaint("INCONCLUSIVE: a counter", "INVALID: a counter"),
            "INVALID, the worst"));
  CHECK(has(profile_complaint("INCONCLUSIVE: a counter", "REFUTED: a counter"),
            "\"INVALID: \" or \"INCONCLUSIVE: \""));
  CHECK(has(profile_complaint("134217728, null, ", "134217728, "), "3 values, one a launch"));
  CHECK(has(profile_complaint("null", "nan"), "a finite number"));
}
