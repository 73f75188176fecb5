// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// `claims check` on predictions and profiles: a tree of its own with a history of its own, clean at
// first, and then with one thing planted in it at a time.

#include "claims/check_understood.hpp"

#include <doctest/doctest.h>

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "claims/model.hpp"
#include "claims/profile_record.hpp"
#include "claims/profile_rows.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"
#include "tests/cpu/faulty_scale.hpp"
#include "tests/cpu/prediction_example.hpp"
#include "tests/skip.hpp"

using namespace capstone::claims;
using capstone::tests::made_up_prediction;
using capstone::tests::fake::scratch_tree;
namespace fs = std::filesystem;

namespace {

const std::string source = CAPSTONE_SOURCE_DIR;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

/// "" where there is a git to make a history with.
std::string why_no_git() { return git_output(source, "--version").empty() ? "no git on the PATH" : ""; }

/// A streaming kernel that no spec registers, by the model.
prediction predicted(const std::string& folder) {
  constexpr std::int64_t rows = 16384, bytes = rows * 8192;
  const ceilings measured = read_ceilings(folder + "/ceilings.yaml");
  machine_code code;
  code.symbol = "_Z5entryv", code.registers = 40, code.static_smem = 264, code.straight = 283;
  prediction p = made_up_prediction();
  p.kernel = "unregistered";
  p.what = {"rows=16384,cols=4096", ""};
  p.device = measured.device;
  p.ceilings = file_digest(folder + "/ceilings.yaml");
  p.terms.clear();
  p.counters.clear();
  p.rivals.clear();
  apply_model({measured, {bytes, bytes, 1, 1}, {rows * 4096.0 * 4, rows * 256.0, 0}, {"_Z5entryv", rows, 256, 1, 0, true}, code, {}, rows, false}, p);
  return p;
}

constexpr const char* not_the_first = " was edited; the history holds another";

/// Ceilings, a prediction, committed, and a profile that confirms it, judged.
struct checked_tree {
  scratch_tree tree{"understood"};
  std::string root = tree.str(), folder = root + "/evidence/h200";
  std::string before;  ///< the commit that has ceilings and no prediction
  std::string path;    ///< of the prediction, from `folder`
  prediction is;
  profile_record profile;

  checked_tree() {
    // Set where tests run from a hook of git's, and then every command would be about that tree.
    for (const char* name : {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}) ::unsetenv(name);
    git("init --quiet");
    git("config user.email tests@example.com");
    git("config user.name tests");
    git("config commit.gpgsign false");
    fs::create_directories(folder);
    fs::copy(source + "/evidence/h200/ceilings.yaml", folder + "/ceilings.yaml");
    before = commit();
    is = predicted(folder);
    path = write(is, 1);
    profile.run = {"20260102T030405Z-00c0ffee", "2026-01-02T03:04:05Z", commit(), false, "sha256:1", "13.0.88", "-O3"};
    profile.device = is.device;
    profile.ncu = "2025.3.1.0 (build 36398880)";
    profile.problems = {seen(is, path)};
    write_profile_file();
  }

  std::string git(const std::string& arguments) const { return git_output(root, arguments); }
  std::string commit() const {
    git("add --all");
    git("commit --quiet --message work");
    const std::string now = git("rev-parse HEAD");
    REQUIRE(now.size() == 40);
    return now;
  }
  std::string write(const prediction& p, int n) const {
    const std::string to = prediction_path(p.kernel, p.dtype, p.what, n);
    atomic_write(folder + "/" + to, write_prediction(p));
    return to;
  }
  /// What the profiler would show of a kernel that is as predicted.
  profiled seen(const prediction& p, const std::string& from) const {
    profiled s;
    s.kernel = p.kernel, s.dtype = p.dtype, s.what = p.what, s.config = p.config;
    s.prediction_path = from;
    s.prediction_sha256 = file_digest(folder + "/" + from);
    s.core_passes = 1, s.pipes_passes = 8, s.launches = 5;
    s.l2 = "cold";
    s.seen = {{p.launch.symbol}, 1, p.launch.grid, p.launch.block, 0};
    s.time_us = {p.expected_us, p.expected_us, p.expected_us};
    s.floor_us = s.time_us;
    for (const counter_prediction& c : p.counters) s.counters.push_back({c.metric, c.unit, std::vector<double>(5, c.value)});
    judge(p, s);
    return s;
  }
  std::string profile_file() const { return folder + "/profiles/" + profile.run.session + ".yaml"; }
  void write_profile_file() const { atomic_write(profile_file(), write_profile(profile)); }

  understood_check check() const { return check_understood(root, root + "/evidence"); }
  /// One problem or more, and one of them says this.
  bool complains(const std::string& phrase) const {
    const auto problems = check().problems;
    for (const std::string& problem : problems)
      if (problem.find(phrase) != std::string::npos) return true;
    for (const std::string& problem : problems) MESSAGE(problem);
    return false;
  }
  /// This problem and no other: the rest of the tree is as it should be. But for the edit by which a
  /// fault was planted, which has a test of its own.
  bool complains_only(const std::string& phrase) const {
    auto problems = check().problems;
    std::erase_if(problems, [](const std::string& problem) { return problem.find(not_the_first) != std::string::npos; });
    if (problems.size() == 1 && problems[0].find(phrase) != std::string::npos) return true;
    for (const std::string& problem : problems) MESSAGE(problem);
    return false;
  }
};

}  // namespace

#define NEEDS_GIT() \
  if (const std::string why = why_no_git(); !why.empty()) CAPSTONE_SKIP(why)

TEST_CASE("check: a prediction, its ceilings and a profile that follows it are without problems") {
  NEEDS_GIT();
  const checked_tree t;
  REQUIRE(t.profile.problems[0].verdict == "CONFIRMED");
  const understood_check found = t.check();
  for (const std::string& problem : found.problems) FAIL_CHECK(problem);
  CHECK(found.notes.empty());
  CHECK(found.records == 3);
  t.commit();  // the profile too
  CHECK(t.check().problems.empty());
}

TEST_CASE("check: a prediction that was edited after its profile makes the profile invalid") {
  NEEDS_GIT();
  checked_tree t;
  prediction edited = t.is;
  edited.high_us += 0.1;
  t.write(edited, 1);
  CHECK(t.complains_only("INVALID: " + t.path + " was edited after the profile"));
  // The digest in the profile made to fit as well: the history knows the prediction as it was.
  t.profile.problems = {t.seen(edited, t.path)};
  t.write_profile_file();
  CHECK(t.complains_only("was another one in commit " + t.profile.run.commit));
  t.commit();
  CHECK(t.complains_only("was another one in commit " + t.profile.run.commit));
}

TEST_CASE("check: a prediction is what it was when it was committed first, with a profile or without") {
  NEEDS_GIT();
  checked_tree t;
  fs::remove(t.profile_file());
  REQUIRE(t.check().problems.empty());
  prediction other = t.is;
  for (rival_story& r : other.rivals)
    if (r.name == "reads twice") r.shows[0].second *= 2;  // which the same intervals exclude
  t.write(other, 1);
  const std::string problem = "evidence/h200/" + t.path + not_the_first;
  CHECK(t.complains(problem));
  CHECK(t.check().problems.size() == 1);
  t.commit();
  CHECK(t.complains(problem));
  t.write(t.is, 1);
  t.commit();
  CHECK(t.check().problems.empty());  // mended
  fs::remove(t.folder + "/" + t.path);
  t.commit();
  t.write(other, 1);
  t.commit();
  CHECK(t.complains(problem));  // another one in its place
}

TEST_CASE("check: a prediction that was deleted leaves its profile without ground") {
  NEEDS_GIT();
  const checked_tree t;
  fs::remove(t.folder + "/" + t.path);
  CHECK(t.complains_only("rests on " + t.path + ", which is gone"));
  t.commit();
  CHECK(t.complains("evidence/h200/" + t.path + " is gone; the history holds it"));
}

TEST_CASE("check: prediction and profile that are deleted together are missed by the history") {
  NEEDS_GIT();
  const checked_tree t;
  t.commit();
  fs::remove_all(t.folder + "/predictions");
  fs::remove_all(t.folder + "/profiles");
  t.commit();
  CHECK(t.check().problems.size() == 2);
  CHECK(t.complains("evidence/h200/profiles/" + t.profile.run.session + ".yaml is gone; the history holds it"));
}

TEST_CASE("check: a profile that another one replaces in one commit is missed as well") {
  NEEDS_GIT();
  checked_tree t;
  t.commit();
  const std::string first = t.profile.run.session;
  fs::remove(t.profile_file());
  t.profile.run.session = "20260102T030406Z-00c0ffee";  // so like the first that git sees a file renamed
  t.write_profile_file();
  t.commit();
  CHECK(t.complains_only("evidence/h200/profiles/" + first + ".yaml is gone; the history holds it"));
}

TEST_CASE("check: a prediction that was committed after its profile was built is none") {
  NEEDS_GIT();
  checked_tree t;
  t.profile.run.commit = t.before;
  t.write_profile_file();
  CHECK(t.complains_only("is not in commit " + t.before + ", which the profile was built from; it was written after the profile"));
}

TEST_CASE("check: where the history is missing a note says that the order was not checked") {
  NEEDS_GIT();
  checked_tree t;
  for (const std::string& commit : {std::string(40, '1'), std::string()}) {
    t.profile.run.commit = commit;
    t.write_profile_file();
    const understood_check found = t.check();
    CHECK(found.problems.empty());
    REQUIRE(found.notes.size() == 1);
    CHECK(found.notes[0].find("order not checked: commit '" + commit + "'") != std::string::npos);
  }
}

TEST_CASE("check: what a record names as its commit is no command") {
  NEEDS_GIT();
  checked_tree t;
  t.profile.run.commit = "HEAD; touch '" + t.root + "/touched'";
  t.write_profile_file();
  const understood_check found = t.check();
  CHECK_FALSE(fs::exists(t.root + "/touched"));
  CHECK(found.notes.size() + found.problems.size() == 1);
}

TEST_CASE("check: no mandatory metric is left out of a prediction") {
  NEEDS_GIT();
  checked_tree t;
  const prediction whole = t.is;
  for (const char* metric :
       {"dram__throughput.avg.pct_of_peak_sustained_elapsed", "dram__bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum",
        "lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
        "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"}) {
    CAPTURE(metric);
    REQUIRE(whole.find(metric) != nullptr);
    t.is = whole;
    std::erase_if(t.is.counters, [&](const counter_prediction& c) { return c.metric == metric; });
    std::erase_if(t.is.rivals, [&](rival_story& r) {
      std::erase_if(r.shows, [&](const auto& shown) { return shown.first == metric; });
      return std::erase(r.excluded_by, metric) > 0 && r.excluded_by.empty();
    });
    // The profile is of this prediction, so that nothing else is amiss.
    t.write(t.is, 1);
    t.profile.problems = {t.seen(t.is, t.path)};
    t.profile.run.commit = t.commit();
    t.write_profile_file();
    CHECK(t.complains_only("predicts no " + std::string(metric) + "; every prediction must"));
  }
}

TEST_CASE("check: a prediction that cannot fail is a problem") {
  NEEDS_GIT();
  checked_tree t;
  t.is.high_us = 2 * t.is.expected_us;
  t.write(t.is, 1);
  CHECK(t.complains("the time is predicted within"));
  t.is.high_us = 1.02 * t.is.expected_us;
  t.is.rivals[0].excluded_by.clear();
  t.write(t.is, 1);
  CHECK(t.complains("would fit every interval too"));
}

TEST_CASE("check: what excludes a rival story follows from its values and the intervals, whichever is edited") {
  NEEDS_GIT();
  checked_tree t;
  const auto says = [&](auto edit) {
    prediction edited = t.is;
    edit(edited);
    t.write(edited, 1);
    return t.complains("the story 'reads twice' is said to be excluded by ");
  };
  const auto reads_twice = [](prediction& p) -> rival_story& {
    return *std::find_if(p.rivals.begin(), p.rivals.end(), [](const rival_story& r) { return r.name == "reads twice"; });
  };
  const std::string reads = "lts__t_sectors_srcunit_tex_op_read.sum";
  REQUIRE(reads_twice(t.is).excluded_by == std::vector{reads});
  CHECK_FALSE(says([](prediction&) {}));
  CHECK(says([&](prediction& p) { reads_twice(p).shows[0].second = p.find(reads)->value; }));  // would fit
  CHECK(says([&](prediction& p) { reads_twice(p).excluded_by = {"dram__bytes.sum"}; }));
  CHECK(says([&](prediction& p) { reads_twice(p).excluded_by.push_back("dram__bytes.sum"); }));
  CHECK(says([&](prediction& p) { reads_twice(p).shows.emplace_back("dram__bytes_read.sum", 0); }));
  CHECK(says([&](prediction& p) { reads_twice(p).shows[0] = {"dram__bytes_write.sum", p.find("dram__bytes_write.sum")->value}; }));
  CHECK(says([&](prediction& p) {  // an interval that another story then fits, too
    for (counter_prediction& c : p.counters)
      if (c.metric == reads) reads_twice(p).shows[0].second = c.high;
  }));
}

TEST_CASE("check: a prediction of the older schema passes, and follows none of the newer") {
  NEEDS_GIT();
  checked_tree t;
  const prediction newer = t.is;
  t.is.schema = older_prediction_schema;
  t.write(t.is, 1);
  t.profile.problems = {t.seen(t.is, t.path)};
  t.git("add --all");
  t.git("commit --quiet --amend --message work");  // as if it had been written by an older program
  t.profile.run.commit = t.git("rev-parse HEAD");
  t.write_profile_file();
  CHECK(t.check().problems.empty());
  prediction next = newer;
  next.supersedes = file_digest(t.folder + "/" + t.path);
  next.why = "the values of rival stories";
  const std::string second = t.write(next, 2);
  CHECK(t.check().problems.empty());
  next.supersedes = file_digest(t.folder + "/" + second);
  next.schema = older_prediction_schema;
  t.write(next, 3);
  CHECK(t.complains_only("has the older schema capstone-prediction/1 and follows one of capstone-prediction/2"));
}

TEST_CASE("check: verdicts are those that the numbers give") {
  NEEDS_GIT();
  checked_tree t;
  profiled& seen = t.profile.problems[0];
  // Refuted, and recorded as what it is: no problem, a refuted prediction stays.
  for (counter_values& c : seen.counters)
    if (c.metric == "dram__bytes_read.sum") c.values.assign(5, 2 * c.values[0]);
  judge(t.is, seen);
  REQUIRE(seen.verdict == "REFUTED");
  t.write_profile_file();
  CHECK(t.check().problems.empty());
  // Every verdict turned into what one would like it to be.
  for (claim_verdict& v : seen.verdicts) v.verdict = "CONFIRMED";
  seen.verdict = "CONFIRMED";
  t.write_profile_file();
  CHECK(t.complains_only("its numbers give REFUTED, the record says CONFIRMED"));
  // The verdict that tells is left out.
  std::erase_if(seen.verdicts, [](const claim_verdict& v) { return v.claim == "dram__bytes_read.sum"; });
  t.write_profile_file();
  CHECK(t.complains_only("its numbers give REFUTED, the record says CONFIRMED"));
}

TEST_CASE("check: a counter that is taken out of a profile does not count as confirmed") {
  NEEDS_GIT();
  checked_tree t;
  profiled& seen = t.profile.problems[0];
  std::erase_if(seen.counters, [](const counter_values& v) { return v.metric == "dram__bytes_read.sum"; });
  t.write_profile_file();
  CHECK(t.complains_only("its numbers give INVALID, the record says CONFIRMED"));
}

TEST_CASE("check: a config that was measured is the predicted one") {
  NEEDS_GIT();
  checked_tree t;
  t.profile.problems[0].config = {{"lanes", "64"}, {"hold", "packed"}};
  t.write_profile_file();
  CHECK(t.complains_only("measured config lanes=64,hold=packed is not the predicted lanes=32,hold=packed"));
}

TEST_CASE("check: successors name what they follow, by its digest, without a gap") {
  NEEDS_GIT();
  checked_tree t;
  const std::string digest = file_digest(t.folder + "/" + t.path);
  prediction second = t.is;
  second.supersedes = digest;
  second.why = "the model did not know the reduction";
  t.write(second, 2);
  CHECK(t.check().problems.empty());
  // The profile rests on the first, and the first stays.
  second.supersedes = "sha256:" + std::string(64, '0');
  t.write(second, 2);
  CHECK(t.complains_only("expected '" + digest + "', the prediction before it (edited, or written out of order)"));
  second.supersedes = digest;
  fs::remove(t.folder + "/" + t.write(second, 2));
  t.write(second, 3);
  CHECK(t.complains_only("2.yaml is gone: 2 predictions of this problem are numbered otherwise"));
  fs::remove(t.folder + "/" + t.write(second, 3));
  second.supersedes = second.why = "";
  t.write(second, 2);
  CHECK(t.complains_only("supersedes ''; expected '" + digest + "'"));
}

TEST_CASE("check: ceilings that a prediction rests on stay, as they are now or as they were") {
  NEEDS_GIT();
  const checked_tree t;
  const std::string ceilings_file = t.folder + "/ceilings.yaml";
  fs::create_directories(t.folder + "/ceilings");
  fs::rename(ceilings_file, t.folder + "/ceilings/first.yaml");
  CHECK(t.check().problems.empty());
  atomic_write(ceilings_file, replaced(read_text(t.folder + "/ceilings/first.yaml"), "stream_us: 4", "stream_us: 5"));
  CHECK(t.check().problems.empty());
  fs::remove_all(t.folder + "/ceilings");
  CHECK(t.complains_only("rests on ceilings " + t.is.ceilings + ", which are neither ceilings.yaml nor in ceilings/"));
  fs::remove(ceilings_file);
  CHECK(t.complains_only("rests on ceilings " + t.is.ceilings + ", which are neither ceilings.yaml nor in ceilings/"));
}

TEST_CASE("check: a file that is no record is a problem with its name, and the others are read") {
  NEEDS_GIT();
  const checked_tree t;
  atomic_write(t.folder + "/predictions/unregistered.bf16/rows=1,cols=1.1.yaml", "schema: \"capstone-prediction/0\"\n");
  CHECK(t.complains_only("rows=1,cols=1.1.yaml"));
  CHECK(t.check().records == 4);
}

TEST_CASE("check: of a kernel that is registered the newest prediction is about today's source, config and kernel") {
  NEEDS_GIT();
  checked_tree t;
  const auto [of, kernel] = find_kernel("rms_norm", "bf16");
  fs::create_directories(t.root + "/include");
  fs::copy(source + "/include", t.root + "/include", fs::copy_options::recursive);
  problem what;
  what.shape = {16384, 4096};
  const pointers at = fake_pointers(kernel->buffers(what));
  const device_limits limits{90, 132, t.is.device.l2_bytes};
  prediction p = t.is;
  p.kernel = "rms_norm";
  p.what = id_of(*of, what);
  p.source = source_fingerprint(t.root, of->header);
  p.config = tokens_of(*of, kernel->choice(what, at, limits).values);
  p.launch.symbol = kernel->launched(what, at, limits).symbol;
  t.write(p, 1);
  CHECK(t.check().problems.empty());

  prediction other = p;
  other.config[0].second = "1";
  t.write(other, 1);
  CHECK(t.complains_only("is stale: it is about config " + text_of(other.config) + "; the library uses " + text_of(p.config)));
  other = p;
  other.launch.symbol = "_Z5entryv";
  t.write(other, 1);
  CHECK(t.complains_only("is stale: it is about kernel _Z5entryv; the library launches"));
  other = p;
  other.source = "sha256:" + std::string(64, '0');
  const std::string path = t.write(other, 1);
  CHECK(t.complains_only("is stale: it is about source " + other.source));
  // Only the newest has to be current.
  p.supersedes = file_digest(t.folder + "/" + path);
  p.why = "the kernel changed";
  t.write(p, 2);
  CHECK(t.check().problems.empty());
  // A change of the source makes it stale; one of a comment does not.
  const std::string header = t.root + "/include/" + of->header, text = read_text(header);
  atomic_write(header, text + "\n// a comment\n");
  CHECK(t.check().problems.empty());
  atomic_write(header, text + "\nint planted;\n");
  CHECK(t.complains_only("is stale: it is about source " + p.source));
}
