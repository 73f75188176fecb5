// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>

#include "autotune/compile.hpp"
#include "autotune/inspect.hpp"
#include "autotune/search.hpp"
#include "autotune/space.hpp"
#include "tests/cpu/fake_op.hpp"

using namespace capstone::tests;

TEST_CASE("space: every combination once, the last axis fastest") {
  std::vector<config> all;
  enumerate(fake_op().axes, [&](const config& values) { all.push_back(values); });
  CHECK(all.size() == 3 * 3 * fault_count);
  CHECK(std::set<config>(all.begin(), all.end()).size() == all.size());
  CHECK(all[0] == config{32, 1, 0});
  CHECK(all[1] == config{32, 1, 1});
  CHECK(all.back() == config{128, 4, fault_count - 1});
}

TEST_CASE("space: what a rule prunes is counted under its reason") {
  const op of = fake_op();
  problem at;
  at.shape = {2, 100};
  const auto made = make_space(of, of.kernels[0], at, {});
  CHECK(made.declared == 90);
  REQUIRE(made.pruned.size() == 2);
  CHECK(made.pruned[0].first == "a block has at most 256 threads");
  CHECK(made.pruned[0].second == 10);  // 128 x 4
  CHECK(made.pruned[1].second == 20);  // tiles of 4 with 32 and 64 lanes
  CHECK(made.candidates.size() == 60);
  CHECK(made.candidates[0].values == of.kernels[0].default_config(at));
}

TEST_CASE("space: the default is in it though the axes do not list it") {
  op of = fake_op();
  of.kernels[0].default_config = [](const problem&) { return config{96, 1, none}; };
  problem at;
  at.shape = {4, 100};
  const auto made = make_space(of, of.kernels[0], at, {});
  CHECK(made.declared == 91);
  CHECK(made.candidates[0].values == config{96, 1, none});
}

TEST_CASE("space: another axis, value, part or rule is another fingerprint") {
  const auto before = axes_fingerprint(fake_op());
  CHECK(before.starts_with("sha256:"));
  CHECK(before == axes_fingerprint(fake_op()));
  op values = fake_op(), belongs = fake_op(), rule = fake_op(), fixed = fake_op();
  values.axes[0].values.push_back(256);
  belongs.axes[0].belongs = part::schedule;
  rule.rules.pop_back();
  fixed.fixed_fields.push_back("cluster");
  for (const auto* other : {&values, &belongs, &rule, &fixed}) {
    CHECK(axes_fingerprint(*other) != before);
  }
}

TEST_CASE("space: configs to tokens and back, and what does not fit is named") {
  const op of = fake_op();
  const config values = {64, 2, racy};
  const auto reduction = tokens_of(of, values, part::reduction);
  auto schedule = tokens_of(of, values, part::schedule);
  CHECK(schedule == config_values{{"tile_rows", "2"}, {"fault", "racy"}});
  CHECK(config_from(of, reduction, schedule) == values);
  CHECK(config_text(of, values) == "lanes=64 tile_rows=2 fault=racy");
  CHECK_THROWS_WITH(config_from(of, {}, schedule), "axis lanes of fake has no value");
  CHECK_THROWS_WITH(config_from(of, {{"lanes", "many"}}, schedule),
                    "axis lanes is 'many'; expected an int");
  schedule.emplace_back("warps", "3");
  CHECK_THROWS_WITH(config_from(of, reduction, schedule),
                    "schedule names axis warps (3), which fake does not declare there");
}

TEST_CASE("search: finalists are the fastest overall and of each kept reduction") {
  const op of = fake_op();
  std::vector<screened> results;
  for (int tile = 1; tile <= 10; ++tile) results.push_back({{32, tile, 0}, double(tile)});
  for (int tile = 1; tile <= 3; ++tile) results.push_back({{64, tile, 0}, 20.0 + tile});
  results.push_back({{128, 1, 0}, 30.0});
  const auto found = select_fastest(of, results, {{32}, {64}}, finalists_overall);
  REQUIRE(found.size() == 10);
  CHECK(found[7] == config{32, 8, 0});
  CHECK(found[8] == config{64, 1, 0});
  CHECK(found[9] == config{64, 2, 0});
}

TEST_CASE("search: reductions are ranked by their worst shape") {
  const op of = fake_op();
  // 32 lanes win the first shape and are twice as slow in the second; 64 are good in both.
  const auto found = best_reductions(of, {{{{32, 1, 0}, 1.0}, {{64, 1, 0}, 1.1}, {{128, 1, 0}, 9.0}},
                                          {{{32, 1, 0}, 2.0}, {{64, 1, 0}, 1.0}}});
  CHECK(found == std::vector<config>{{64}, {32}});  // 128 was not measured everywhere
}

TEST_CASE("compile: registers and spills from ptxas's words") {
  image made;
  read_ptxas_log("ptxas info    : Compiling entry function 'k' for 'sm_90'\n"
                 "ptxas         .     16 bytes stack frame, 12 bytes spill stores, 8 bytes spill "
                 "loads\nptxas info    : Used 230 registers, used 1 barriers\n",
                 made);
  CHECK(made.registers == 230);
  CHECK(made.spill_bytes == 20);
}

TEST_CASE("compile: a candidate that does not compile is an error with the compiler's words") {
  const compile_settings settings{CAPSTONE_SOURCE_DIR, "capstone/version.hpp", 90, ""};
  const auto made = compile(settings, "capstone::no_such_kernel");
  CHECK(made.error.find("no_such_kernel") != std::string::npos);
  CHECK(made.file.empty());
}

TEST_CASE("inspect: access widths from the disassembler's words") {
  const auto found = read_sass(
      "        /*0100*/                   LDG.E.128.CONSTANT R4, [R2.64] ;\n"
      "        /*0110*/                   LDG.E.U16 R4, desc[UR4][R2.64] ;\n"
      "        /*0120*/              @!P0 STG.E.EF.64 desc[UR4][R2.64], R4 ;\n"
      "        /*0130*/                   LDC.64 R4, c[0x0][0x210] ;\n"
      "        /*0140*/                   LDS.128 R4, [R2] ;\n"
      "        /*0150*/                   STG.E desc[UR4][R2.64], R4 ;\n");
  CHECK(found.loads == std::map<int, int>{{16, 1}, {2, 1}});
  CHECK(found.stores == std::map<int, int>{{8, 1}, {4, 1}});
}
