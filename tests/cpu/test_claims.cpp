// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// `claims verify` and `claims bench` on a fake op: planted faults, and refusals.

#include <doctest/doctest.h>

#include "claims/bench.hpp"
#include "claims/table.hpp"
#include "claims/verify.hpp"
#include "core/fingerprint.hpp"
#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::fake_kernel;
using capstone::tests::fake::fake_op;
using capstone::tests::fake::fault;
using capstone::tests::fake::scratch_tree;

namespace {

/// The fake op is known to the commands only as long as this lives.
struct registered {
  std::vector<op> saved = registry();
  explicit registered(op of) { registry() = {std::move(of)}; }
  ~registered() { registry() = saved; }
};

verified first_failure(fault wrong) {
  const op of = fake_op({fake_kernel("", wrong)});
  const device host = open_device("host");
  verified v;
  for (const auto& [suite, problems] : of.suites)
    for (const problem& what : problems) {
      v = verify_problem(host, of, of.kernels[0], {suite, what}, 1);
      if (!v.passed()) return v;
    }
  return v;
}

selection on_host(const scratch_tree& tree) {
  selection wanted;
  wanted.device = "host";
  wanted.out = tree.str();
  return wanted;
}

arm_samples samples(const char* name, double us) {
  return {name, {us, us * 1.001, us * 0.999, us}, {1900, 1980, 1980, 1980}, {400, 410, 420, 430}};
}

}  // namespace

TEST_CASE("claims: verify passes a right kernel, odd layouts, in place and no rows") {
  const verified v = first_failure(fault::none);
  CHECK(v.passed());
  CHECK(v.fault == "");
}

TEST_CASE("claims: verify catches a dropped last column") {
  const verified v = first_failure(fault::last_column_dropped);
  CHECK_FALSE(v.passed());
  CHECK(v.fault.find("not written") != std::string::npos);
}

TEST_CASE("claims: verify catches a tail written into what follows the row") {
  const verified v = first_failure(fault::tail_into_next_row);
  CHECK_FALSE(v.passed());
  CHECK(v.fault.find("overwritten") != std::string::npos);
}

TEST_CASE("claims: verify catches a kernel that writes nothing") {
  CHECK(first_failure(fault::nothing_written).fault.find("not written") != std::string::npos);
}

TEST_CASE("claims: verify catches truncation by its bias, within the error bound") {
  const verified v = first_failure(fault::truncated);
  CHECK_FALSE(v.passed());
  REQUIRE(v.worst() != nullptr);
  CHECK(v.worst()->worst_ratio <= 1);
  CHECK(v.worst()->bias < -v.worst()->bias_limit);
}

TEST_CASE("claims: verify reports the sentence of a call that refuses") {
  CHECK(first_failure(fault::refuses).fault == "rows is 3; expected a number that it likes");
}

TEST_CASE("claims: a kernel in place is held to inputs from elsewhere") {
  const op of = fake_op({fake_kernel("", fault::none)});
  problem what;
  what.shape = {4, 40};
  what.in_place = true;
  const verified v = verify_problem(open_device("host"), of, of.kernels[0], {"edge", what}, 1);
  CHECK(v.passed());
  CHECK(v.outputs.at(0).worst_ratio > 0);  // compared with the results, it would be far above 1
}

TEST_CASE(
    "claims: verify exits 3 on a failure and records it; bench refuses what it did not pass") {
  const scratch_tree tree("refusals");
  const registered guard(fake_op({fake_kernel("", fault::truncated)}));
  const device host = open_device("host");
  bench_options options;
  options.rounds = 3;
  CHECK(bench(on_host(tree), host, options) == 2);  // nothing is verified
  CHECK(verify(on_host(tree), host) == 3);
  const verify_record record =
      read_verify(verify_path(tree.str(), "host", registry()[0].kernels[0]));
  CHECK(record.problems.size() == 4);
  CHECK_FALSE(record.problems[0].passed());
  CHECK(bench(on_host(tree), host, options) == 2);  // verified, and failed
}

TEST_CASE("claims: verify, bench and table work together on the host") {
  const scratch_tree tree("together");
  const registered guard(fake_op({fake_kernel("", fault::none)}));
  const device host = open_device("host");
  selection wanted = on_host(tree);
  CHECK(verify(wanted, host) == 0);
  bench_options options;
  options.rounds = 3;
  wanted.suites = {"llm"};
  CHECK(bench(wanted, host, options) == 0);
  const auto files = record_files(tree.str() + "/evidence", "host", "sessions");
  REQUIRE(files.size() == 1);
  const session_record session = read_session(files[0].first);
  REQUIRE(session.comparisons.size() == 1);
  const comparison& c = session.comparisons[0];
  CHECK(c.timer == "host");
  CHECK(c.arms.size() == 4);  // capstone, its twin, textbook, floor
  CHECK(c.find("floor")->version == "memcpy");
  CHECK(c.find("textbook")->version == "1");
  CHECK(table(tree.str() + "/evidence", "", table_form::tsv) == 0);
}

TEST_CASE("claims: a baseline with wrong results is not raced") {
  const scratch_tree tree("wrong-baseline");
  kernel_spec kernel = fake_kernel("", fault::none);
  kernel.baselines[0].run = [](const problem& what, const pointers& data, void*, void*) {
    capstone::tests::fake::run_fake(fault::last_column_dropped, what, data);
  };
  const registered guard(fake_op({kernel}));
  const device host = open_device("host");
  selection wanted = on_host(tree);
  wanted.suites = {"llm"};
  CHECK(verify(wanted, host) == 0);
  bench_options options;
  options.rounds = 3;
  CHECK(bench(wanted, host, options) == 0);
  const auto files = record_files(tree.str() + "/evidence", "host", "sessions");
  CHECK(read_session(files.at(0).first).comparisons.at(0).find("textbook") == nullptr);
}

TEST_CASE("claims: what verify found earlier stays in its record, unless it is verified again") {
  const scratch_tree tree("merge");
  const registered guard(fake_op({fake_kernel("", fault::none)}));
  const device host = open_device("host");
  selection wanted = on_host(tree);
  const auto count = [&] {
    return read_verify(verify_path(tree.str(), "host", registry()[0].kernels[0])).problems.size();
  };
  wanted.suites = {"llm"};
  CHECK(verify(wanted, host) == 0);
  CHECK(count() == 1);
  wanted.suites = {"edge"};
  CHECK(verify(wanted, host) == 0);
  CHECK(count() == 4);
  CHECK(verify(wanted, host) == 0);
  CHECK(count() == 4);
}

TEST_CASE("claims: bench refuses by binary, config, failure and absence") {
  const scratch_tree tree("unverified");
  const op of = fake_op({fake_kernel("", fault::none)});
  const kernel_spec& kernel = of.kernels[0];
  const problem& what = of.suites[0].second[0];
  const std::string path = verify_path(tree.str(), "h200", kernel);
  const auto why = [&](const char* lanes, const char* binary) {
    return why_unverified(tree.str(), "h200", of, kernel, what, {{"lanes", lanes}}, binary);
  };
  const auto says = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(says(why("32", "sha256:a"), "no verify record"));
  verify_record record;
  record.run.binary = "sha256:a";
  record.device.id = "h200";
  record.problems = {{"llm", id_of(of, what), "exact", false, {{"lanes", "32"}}, "", {}}};
  atomic_write(path, write_verify(record));
  CHECK(why("32", "sha256:a") == "");
  CHECK(says(why("32", "sha256:b"), "another binary"));
  CHECK(says(why("64", "sha256:a"), "not lanes=64"));
  record.problems[0].fault = "row 1 was overwritten";
  atomic_write(path, write_verify(record));
  CHECK(says(why("32", "sha256:a"), "failed verify"));
  record.problems.clear();
  atomic_write(path, write_verify(record));
  CHECK(says(why("32", "sha256:a"), "not in its verify record"));
}

TEST_CASE("claims: bench refuses a config that was tuned from another source") {
  const scratch_tree tree("stale");
  const op of = fake_op({fake_kernel("", fault::none)});
  atomic_write(tree.str() + "/include/capstone/fake.cuh", "int kernel();\n");
  CHECK(why_stale(tree.str(), "h200", of, of.kernels[0]) == "");  // none is frozen
  frozen_config frozen;
  frozen.kernel = "fake";
  frozen.dtype = "bf16";
  frozen.axes = frozen.source = source_fingerprint(tree.str(), of.header);
  frozen.device = {"h200", "NVIDIA H200", "9.0", 132, 62914560, "580"};
  frozen.toolchain = {"13.0.88", {"-std=c++20"}};
  frozen.cols = {{96, 96, {{"lanes", "32"}}, 1.0, 64, {{1, 0, {{"tile_rows", "1"}}, 64, {}}}}};
  frozen.provenance.git = "0123456789012345678901234567890123456789";
  atomic_write(tree.str() + "/" + config_path(frozen), write_config(frozen));
  CHECK(why_stale(tree.str(), "h200", of, of.kernels[0]) == "");
  atomic_write(tree.str() + "/include/capstone/fake.cuh", "int kernel();  // a comment\n");
  CHECK(why_stale(tree.str(), "h200", of, of.kernels[0]) == "");
  atomic_write(tree.str() + "/include/capstone/fake.cuh", "long kernel();\n");
  CHECK(why_stale(tree.str(), "h200", of, of.kernels[0]).find("tune again") != std::string::npos);

  // `claims check` against the same file
  session_record session;
  session.device.id = "h200";
  comparison c;
  c.kernel = "fake";
  c.dtype = "bf16";
  c.what = {"rows=64,cols=96", ""};
  c.match = "exact";
  c.config = {{"lanes", "32"}, {"tile_rows", "1"}};
  c.timer = "graph";
  timing timed{timer_kind::graph, 8, 4, false, {}};
  timed.arms = {samples(own_name, 10), samples(twin_name, 10), samples("u4", 9)};
  summarise(timed, {"u4"}, 1, c);
  session.comparisons = {c};
  const std::string path = session_path(tree.str(), "h200", "s");
  atomic_write(path, write_session(session));
  CHECK(check(tree.str(), tree.str() + "/evidence") == 0);
  session.comparisons[0].config[1].second = "2";
  atomic_write(path, write_session(session));
  CHECK(check(tree.str(), tree.str() + "/evidence") == 2);
}

TEST_CASE("claims: the selection knows its names and keeps host times out of the evidence") {
  const scratch_tree tree("select");
  const registered guard(fake_op({fake_kernel("", fault::none)}));
  const device host = open_device("host");
  selection wanted;
  CHECK(choose(wanted, host).at(0).problems.size() == 4);
  wanted.default_suites = {"llm"};
  CHECK(choose(wanted, host).at(0).problems.size() == 1);
  wanted.shapes = {"2x8,4x8"};
  CHECK(choose(wanted, host).at(0).problems.at(1).what.shape == std::vector<std::int64_t>{4, 8});
  wanted.kernels = {"fake+other"};
  CHECK_THROWS_WITH_AS(choose(wanted, host), "kernel is 'fake+other'; expected one of fake",
                       std::invalid_argument);
  kernel_spec slow = fake_kernel("+slow", fault::none);
  slow.tuned = false;
  registry() = {fake_op({fake_kernel("", fault::none), slow})};
  wanted = {};
  CHECK(choose(wanted, host).size() == 2);
  wanted.tuned_only = true;
  CHECK(choose(wanted, host).size() == 1);
  wanted.kernels = {"fake+slow"};
  CHECK(choose(wanted, host).at(0).kernel->name() == "fake+slow");
  CHECK(out_root({}, host).ends_with("build/host"));
  wanted.out = capstone::tools::source_root();
  CHECK_THROWS_AS(out_root(wanted, host), std::invalid_argument);
}
