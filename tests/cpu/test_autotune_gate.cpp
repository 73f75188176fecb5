// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "autotune/gate.hpp"
#include "tests/cpu/fake_op.hpp"

using namespace capstone::tests;

namespace {

verdict gated(fault kind, int tile_rows = 4) {
  const op of = fake_op();
  const device host = open_device("host");
  problem at;
  at.shape = {64, 100};
  gate gate(host, of, of.kernels[0], at, fake_executor(), 1);
  return gate.test({32, tile_rows, kind});
}

}  // namespace

TEST_CASE("gate: a correct candidate passes") {
  const auto found = gated(none);
  CHECK(found.state == status::ok);
  CHECK(found.why == "");
}

TEST_CASE("gate: a candidate that writes nothing is wrong") {
  const auto found = gated(writes_nothing);
  CHECK(found.state == status::wrong);
  CHECK(found.why == "at 37x100: output y: row 0, col 0 was not written");
}

TEST_CASE("gate: the last column dropped is wrong") {
  const auto found = gated(drops_last_column);
  CHECK(found.state == status::wrong);
  CHECK(found.why.find("col 99 was not written") != std::string::npos);
}

TEST_CASE("gate: a write past the row is wrong") {
  const auto found = gated(writes_past_row);
  CHECK(found.state == status::wrong);
  CHECK(found.why.find("output y: byte 0 behind the end of row 36 (the last) was overwritten") !=
        std::string::npos);
}

TEST_CASE("gate: an input overwritten is wrong") {
  const auto found = gated(overwrites_input);
  CHECK(found.state == status::wrong);
  CHECK(found.why.find("input x: row 0, col 99 was overwritten") != std::string::npos);
}

TEST_CASE("gate: a value within the tolerance, but other bits than its reduction's, is wrong") {
  const auto found = gated(other_bits);
  CHECK(found.state == status::wrong);
  CHECK(found.why.find("differs in a bit") != std::string::npos);
}

TEST_CASE("gate: a fault that candidate and run-time path share meets the reference") {
  op of = fake_op();
  of.kernels[0].default_plan = [plan = of.kernels[0].plan](
                                   const problem& p, const pointers& at, const config& values,
                                   const device_limits& limits) {
    return plan(p, at, {values[0], 1, thrice}, limits);
  };
  const device host = open_device("host");
  problem at;
  at.shape = {64, 100};
  gate gate(host, of, of.kernels[0], at, fake_executor(), 1);
  const auto found = gate.test({32, 2, thrice});
  CHECK(found.state == status::wrong);
  CHECK(found.why.find("the default schedule of its reduction: y[36, 99] is") !=
        std::string::npos);
}

TEST_CASE("gate: two runs that differ are nondeterministic") {
  CHECK(gated(racy).state == status::nondeterministic);
}

TEST_CASE("gate: a refused launch and a crash are told apart") {
  CHECK(gated(refused).state == status::launch_error);
  const auto found = gated(crashes);
  CHECK(found.state == status::crash);
  CHECK(found.why.find("illegal memory access") != std::string::npos);
}

TEST_CASE("gate: rows around the tile, a wider stride, and a start off alignment") {
  const op of = fake_op();
  const device host = open_device("host");
  problem at;
  at.shape = {64, 100};
  gate gate(host, of, of.kernels[0], at, fake_executor(), 1);
  std::vector<std::vector<std::int64_t>> found;
  for (const auto& each : gate.problems({32, 4, none})) {
    found.push_back({each.shape[0], each.pad, each.offset});
  }
  CHECK(found == std::vector<std::vector<std::int64_t>>{
                     {37, 0, 0}, {1, 0, 0}, {3, 0, 0}, {4, 0, 0}, {5, 0, 0}, {37, 64, 0}, {37, 0, 1}});
}
