// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// What serves a shape and what the rules keep out, said without a GPU.
#include <doctest/doctest.h>

#include "autotune/check.hpp"
#include "autotune/explain.hpp"
#include "autotune/rerun.hpp"
#include "autotune/space.hpp"
#include "core/context.hpp"
#include "tests/cpu/fake_op.hpp"

using namespace capstone::tests;

TEST_CASE("explain: says what the library chooses, for every shape and several GPUs") {
  int asked = 0;
  for (const auto& of : registry()) {
    const auto files = read_configs(source_root(), of);
    for (const auto& kernel : of.kernels) {
      for (const device_limits& where : {device_limits{90, 132, 62914560}, device_limits{90, 114, 52428800}, device_limits{80, 108, 41943040}}) {
        for (const std::int64_t cols : {64, 100, 128, 1024, 3584, 4096, 5120, 8192, 16384}) {
          for (const std::int64_t rows : {1, 2, 64, 65, 4096, 16384, 262144, 1000000}) {
            problem at;
            at.shape = {rows, cols};
            const auto chosen = kernel.choice(at, fake_pointers(kernel.buffers(at)), where);
            const auto found = look_up(files, kernel, where, rows, cols);
            INFO(kernel.name(), " ", kernel.dtype, " ", rows, "x", cols, " sm_", where.cc);
            CHECK(found.match == (chosen.match == "default" ? "none" : chosen.match));
            if (found.rows != nullptr) CHECK(config_from(of, found.cols->reduction, found.rows->schedule) == chosen.values);
            ++asked;
          }
        }
      }
    }
  }
  CHECK(asked > 0);
}

TEST_CASE("rerun: a tie that a file lists is read back as the config it is") {
  const op of = fake_op();
  for (const config& values : {config{32, 1, none}, config{128, 4, racy}}) {
    CHECK(config_from_text(of, config_text(of, values)) == values);
  }
  CHECK_THROWS_WITH(config_from_text(of, "lanes=32 warps=2"), "config is 'lanes=32 warps=2'; expected axis=value words of fake, not 'warps=2'");
  CHECK_THROWS_WITH(config_from_text(of, "lanes=32"), "axis tile_rows of fake has no value");
}

TEST_CASE("space: what a rule alone keeps out breaks this rule and no other") {
  const op of = fake_op();
  problem at;
  at.shape = {2, 100};
  const auto all = sample_pruned(of, of.kernels[0], at, {}, 1000, 1);
  REQUIRE(all.size() == 1);
  CHECK(all[0].rule == 1);
  std::size_t lawful = make_space(of, of.kernels[0], at, {}).candidates.size();
  for (const auto& each : all) {
    CHECK(each.count == each.sample.size());
    for (const auto& values : each.sample) {
      for (std::size_t i = 0; i < of.rules.size(); ++i) {
        CHECK(of.rules[i].holds(values, at, of.kernels[0], {}) == (i != each.rule));
      }
    }
    lawful += each.count;
  }
  CHECK(lawful == 80);  // of 90: the 10 others, 128 x 4, break both
}

TEST_CASE("space: a sample of what is pruned is as large as asked for, repeatable, and differs with the seed") {
  const op of = fake_op();
  problem at;
  at.shape = {2, 100};
  const auto one = sample_pruned(of, of.kernels[0], at, {}, 3, 1), again = sample_pruned(of, of.kernels[0], at, {}, 3, 1);
  bool differs = false;
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].sample.size() == std::min<std::size_t>(3, one[i].count));
    CHECK(one[i].sample == again[i].sample);
    for (std::uint64_t seed = 2; seed < 6; ++seed) differs |= sample_pruned(of, of.kernels[0], at, {}, 3, seed)[i].sample != one[i].sample;
  }
  CHECK(differs);
}
