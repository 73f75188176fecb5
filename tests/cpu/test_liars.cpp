// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Kernels that cheat, as an H200 recorded them (tests/liars/run.py), judged anew without one.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "claims/check_understood.hpp"
#include "claims/model.hpp"
#include "claims/profile_record.hpp"
#include "claims/profile_rows.hpp"
#include "claims/sentence.hpp"
#include "claims/table.hpp"
#include "core/context.hpp"
#include "core/records.hpp"
#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;
namespace fs = std::filesystem;

namespace {

const std::string recorded_folder = std::string(CAPSTONE_SOURCE_DIR) + "/tests/liars/recorded";

struct liar {
  prediction predicted;
  profiled seen;
};

std::map<std::string, liar> recorded_liars() {
  std::map<std::string, liar> all;
  for (const auto& [path, name] : record_files(recorded_folder, "", "profiles"))
    for (const profiled& p : read_profile(path).problems)
      all[p.kernel.substr(5)] = {read_prediction(recorded_folder + "/h200/" + p.prediction_path), p};
  return all;
}

bool has(const profiled& seen, const std::string& claim, const std::string& verdict, const std::string& why = "") {
  return std::any_of(seen.verdicts.begin(), seen.verdicts.end(), [&](const claim_verdict& v) {
    return v.claim == claim && v.verdict == verdict && v.why.find(why) != std::string::npos;
  });
}

bool verified_as_correct(const std::string& variant) {
  const verify_record record = read_verify(recorded_folder + "/h200/verify/liar." + variant + ".bf16.yaml");
  return std::all_of(record.problems.begin(), record.problems.end(), [](const verified& v) { return v.passed(); });
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

void replace(std::string& text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
}

/// The honest kernel's records in a repository of their own: predictions committed, then profiled.
class repository {
 public:
  explicit repository(bool predictions_first = true) : tree_("liars") {
    fs::create_directories(root() / "evidence/h200/profiles");
    const fs::path from = fs::path(recorded_folder) / "h200";
    fs::copy(from / "ceilings.yaml", root() / "evidence/h200/ceilings.yaml");
    git("init -q");
    git("config user.email nobody@example.org");
    git("config user.name nobody");
    if (predictions_first) add_prediction();
    git("add -A");
    git("commit -q -m predictions");
    const std::string commit = capstone::tools::git_output(root().string(), "rev-parse HEAD");
    REQUIRE(commit.size() == 40);
    if (!predictions_first) add_prediction();
    for (const auto& [path, name] : record_files(recorded_folder, "", "profiles")) {
      profile_record record = read_profile(path);
      if (record.problems.size() != 1) continue;  // the honest kernel was profiled alone
      record.run.commit = commit;
      profile = root() / "evidence/h200/profiles" / fs::path(path).filename();
      write_file(profile, write_profile(record));
    }
    REQUIRE(fs::exists(profile));
    git("add -A");
    git("commit -q -m profiles");
  }
  fs::path root() const { return tree_.str(); }
  fs::path prediction_file() const { return root() / "evidence/h200/predictions/liar.honest.bf16/rows=16384,cols=4096.1.yaml"; }
  understood_check check() const { return check_understood(root().string(), (root() / "evidence").string()); }
  bool complains(const std::string& phrase) const {
    const understood_check found = check();
    for (const std::string& problem : found.problems) {
      INFO(problem);
      if (problem.find(phrase) != std::string::npos) return true;
    }
    return false;
  }
  void git(const std::string& arguments) const { capstone::tools::git_output(root().string(), arguments); }

  fs::path profile;

 private:
  void add_prediction() {
    fs::create_directories(prediction_file().parent_path());
    fs::copy(fs::path(recorded_folder) / "h200/predictions/liar.honest.bf16", prediction_file().parent_path(), fs::copy_options::recursive);
  }
  scratch_tree tree_;
};

}  // namespace

TEST_CASE("liars: each recorded one is refuted or invalid by its named check, the honest one confirmed") {
  std::map<std::string, liar> all = recorded_liars();
  REQUIRE(all.size() == 10);
  for (auto& [name, l] : all) {
    CAPTURE(name);
    const std::string before = l.seen.verdict;
    judge(l.predicted, l.seen);
    CHECK(l.seen.verdict == before);  // nothing but the record decides
    CHECK((l.seen.verdict == "CONFIRMED") == (name == "honest"));
  }
  CHECK(verified_as_correct("honest"));
  CHECK(!verified_as_correct("writes_nothing"));
  CHECK(has(all["writes_nothing"].seen, "lts__t_sectors_srcunit_tex_op_write.sum", "REFUTED"));
  CHECK(has(all["spills"].seen, "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum", "REFUTED"));
  CHECK(all["spills"].seen.story.find("spilled") != std::string::npos);
  CHECK(has(all["reads_twice"].seen, "lts__t_sectors_srcunit_tex_op_read.sum", "REFUTED", "2 of the predicted"));
  CHECK(all["reads_twice"].seen.story.find("as if the inputs were read twice") != std::string::npos);
  CHECK(!verified_as_correct("low_precision"));
  CHECK(has(all["unfused"].seen, "identity", "INVALID", "launched 2 kernels"));
  CHECK(has(all["library"].seen, "identity", "INVALID", "predicted was liar_honest"));
  CHECK(has(all["other_stream"].seen, "identity", "INVALID", "another stream"));
  CHECK(has(all["cached"].seen, "identity", "INVALID", "launched 0 kernels"));
  CHECK(!verified_as_correct("cached"));
  CHECK(has(all["tunes"].seen, "run", "INVALID", "differing numbers of kernels"));
}

TEST_CASE("liars: a metric taken out of the profile is invalid, one without a number is no pass") {
  liar l = recorded_liars()["honest"];
  const std::string metric = "dram__bytes.sum";
  liar dropped = l, missing = l;
  std::erase_if(dropped.seen.counters, [&](const counter_values& v) { return v.metric == metric; });
  judge(dropped.predicted, dropped.seen);
  CHECK(has(dropped.seen, metric, "INVALID", "not in the profile"));
  CHECK(dropped.seen.verdict == "INVALID");
  for (counter_values& v : missing.seen.counters)
    if (v.metric == metric) v.values[2] = std::nan("");
  judge(missing.predicted, missing.seen);
  CHECK(has(missing.seen, metric, "INCONCLUSIVE"));
  CHECK(missing.seen.verdict == "INCONCLUSIVE");
}

TEST_CASE("liars: intervals so wide that nothing can fail are refused") {
  const prediction honest = recorded_liars()["honest"].predicted;
  CHECK(why_cannot_fail(honest) == "");
  prediction wide = honest;
  for (counter_prediction& c : wide.counters)
    if (c.metric == "dram__bytes.sum") c.low = 0, c.high = 10 * c.value;
  CHECK(why_cannot_fail(wide).find("dram__bytes.sum is predicted within") != std::string::npos);
  wide = honest;
  wide.high_us *= 2;
  CHECK(why_cannot_fail(wide).find("the time is predicted within") != std::string::npos);
  wide = honest;
  wide.rivals[0].excluded_by.clear();
  CHECK(why_cannot_fail(wide).find("would fit every interval too") != std::string::npos);
}

TEST_CASE("liars: times and counters that cannot be are not confirmed") {
  liar fast = recorded_liars()["honest"], percent = fast, spread = fast, few = fast;
  fast.seen.time_us.median = fast.predicted.physics_us * 0.9;
  judge(fast.predicted, fast.seen);
  CHECK(has(fast.seen, "time", "INVALID", "faster than the bytes"));
  for (counter_values& v : percent.seen.counters)
    if (v.metric.starts_with("dram__throughput")) v.values[0] = 103;
  judge(percent.predicted, percent.seen);
  CHECK(has(percent.seen, "dram__throughput.avg.pct_of_peak_sustained_elapsed", "INCONCLUSIVE", "above 100"));
  for (counter_values& v : spread.seen.counters)
    if (v.metric == "dram__bytes.sum") v.values[0] *= 1.2;
  judge(spread.predicted, spread.seen);
  CHECK(has(spread.seen, "dram__bytes.sum", "INCONCLUSIVE", "spread"));
  few.seen.launches = 4;
  judge(few.predicted, few.seen);
  CHECK(few.seen.verdict == "INVALID");
}

TEST_CASE("claims check: predictions committed before the profile, and nothing edited, is no problem") {
  const repository r;
  const understood_check found = r.check();
  for (const std::string& problem : found.problems) MESSAGE(problem);
  CHECK(found.problems.empty());
  CHECK(found.notes.empty());
  CHECK(found.records == 3);
}

TEST_CASE("claims check: a prediction written after the profile is invalid") {
  CHECK(repository(false).complains("it was written after the profile"));
}

TEST_CASE("claims check: an edited prediction is invalid") {
  const repository r;
  std::string text = read_file(r.prediction_file());
  replace(text, "expected: ", "expected: 1");
  write_file(r.prediction_file(), text);
  CHECK(!r.check().problems.empty());
  text = read_file(fs::path(recorded_folder) / "h200/predictions/liar.honest.bf16/rows=16384,cols=4096.1.yaml");
  replace(text, "prior_profiles: 0", "prior_profiles: 1");  // reads well, and is another one
  write_file(r.prediction_file(), text);
  CHECK(r.complains("was edited after the profile"));
}

TEST_CASE("claims check: a prediction, or a profile, that is gone is missed") {
  const repository r;
  fs::remove(r.prediction_file());
  CHECK(r.complains("which is gone"));
  const repository other;
  fs::remove(other.profile);
  other.git("add -A");
  other.git("commit -q -m gone");
  CHECK(other.complains("is gone; the history holds it"));
}

TEST_CASE("claims check: a verdict that the numbers do not give is found") {
  const repository r;
  profile_record record = read_profile(r.profile.string());
  for (counter_values& v : record.problems[0].counters)
    if (v.metric == "lts__t_sectors_srcunit_tex_op_read.sum")
      for (double& value : v.values) value *= 2;
  write_file(r.profile, write_profile(record));
  CHECK(r.complains("its numbers give REFUTED, the record says CONFIRMED"));
}

TEST_CASE("claims check: ceilings that nobody has, and a history that is not there") {
  const repository r;
  write_file(r.root() / "evidence/h200/ceilings.yaml", read_file(r.root() / "evidence/h200/ceilings.yaml") + "\n");
  CHECK(r.complains("rests on ceilings"));
  const repository shallow;
  profile_record record = read_profile(shallow.profile.string());
  record.run.commit = std::string(40, 'a');
  write_file(shallow.profile, write_profile(record));
  const understood_check found = shallow.check();
  CHECK(found.problems.empty());
  REQUIRE(found.notes.size() == 1);
  CHECK(found.notes[0].find("order not checked") != std::string::npos);
}

TEST_CASE("sentences: a baseline slower against the floor than in another session supports nothing") {
  comparison c;
  c.kernel = "rms_norm", c.dtype = "bf16", c.what.shape = "rows=4096,cols=4096", c.timer = "graph", c.bytes = 67'000'000;
  c.config = {{"lanes", "256"}};
  c.sm_mhz = {1980, 1980, 1980};
  c.arms = {{own_name, "", 0.018, 0.018, 0.018, {}},
            {twin_name, "", 0.018, 0.018, 0.018, ratio_band{1, 0.999, 1.001}},
            {"textbook", "1", 0.027, 0.027, 0.027, ratio_band{1.5, 1.49, 1.51}},
            {floor_name, "u1", 0.0178, 0.0178, 0.0178, ratio_band{0.99, 0.98, 0.99}}};
  session_record session;
  session.device.id = "h200", session.run.session = "one", session.comparisons = {c};
  session_record slow = session;
  slow.run.session = "two";
  slow.comparisons[0].arms[2].ms = 0.036;
  slow.comparisons[0].arms[2].speedup = ratio_band{2, 1.99, 2.01};
  const std::vector<session_record> both = {session, slow};
  CHECK(why_no_claim(both[0].comparisons[0], both[0].comparisons[0].arms[2], both, "h200") == "");
  CHECK(why_no_claim(both[1].comparisons[0], both[1].comparisons[0].arms[2], both, "h200").find("slowed baseline") != std::string::npos);

  verify_record record;
  record.kernel = "rms_norm", record.dtype = "bf16", record.device.id = "h200";
  record.problems = {{"llm", c.what, "exact", false, c.config, "", {}}};
  auto said = speed_sentences({session}, {record}, {});
  REQUIRE(said.size() == 1);
  CHECK(said[0].text.starts_with("Supports: faster than textbook (1) on 4096x4096, by 1.5 [1.49, 1.51]"));
  CHECK(said[0].text.ends_with("Does not support: 'faster'."));
  CHECK(said[0].fused);
  CHECK(speed_sentences({session}, {}, {})[0].text.find("not verified") != std::string::npos);
  slow.comparisons[0].sm_mhz = {1500, 1980, 1980};
  CHECK(speed_sentences({slow}, {record}, {})[0].text.find("throttled") != std::string::npos);
  session.comparisons[0].arms[2].version = "";
  CHECK(speed_sentences({session}, {record}, {})[0].text.find("has no version") != std::string::npos);
  session.comparisons[0].arms[1].speedup = ratio_band{1.02, 1.01, 1.03};
  CHECK(speed_sentences({session}, {record}, {})[0].text.find("void") != std::string::npos);
}
