// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "autotune/portfolio.hpp"

using namespace capstone::tools;

namespace {

using contenders = std::map<config, contender>;

struct total {
  bool legal = true;
  std::size_t compiled = 0;
  std::int64_t loss = 0;
};

total total_of(const contenders& all, const std::vector<config>& assigned) {
  total found;
  for (std::size_t s = 0; s < assigned.size(); ++s) {
    const auto& loss = all.at(assigned[s]).loss;
    if (loss.count(s) == 0) return {false};
    found.loss += loss.at(s);
  }
  for (const auto& values : std::set<config>(assigned.begin(), assigned.end())) found.compiled += !all.at(values).free;
  return found;
}

// Every assignment there is, by brute force.
total best_of(const contenders& all, std::size_t row_counts) {
  std::vector<config> names;
  for (const auto& [values, each] : all) names.push_back(values);
  std::size_t ways = 1;
  for (std::size_t s = 0; s < row_counts; ++s) ways *= names.size();
  total best{false};
  for (std::size_t way = 0; way < ways; ++way) {
    std::vector<config> assigned;
    for (std::size_t s = 0, left = way; s < row_counts; ++s, left /= names.size()) {
      assigned.push_back(names[left % names.size()]);
    }
    const auto mine = total_of(all, assigned);
    if (!mine.legal) continue;
    if (!best.legal || std::tie(mine.compiled, mine.loss) < std::tie(best.compiled, best.loss)) best = mine;
  }
  return best;
}

contender losing(std::map<std::size_t, std::int64_t> loss) {
  contender found;
  found.loss = std::move(loss);
  found.threads = 128;
  return found;
}

}  // namespace

TEST_CASE("portfolio: as few configs and as little loss as trying every assignment finds") {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 150; ++trial) {
    const std::size_t row_counts = 1 + random() % 5;
    contenders all;
    for (int c = 0; c < 6; ++c) {
      contender each;
      for (std::size_t s = 0; s < row_counts; ++s) {
        const bool tied = random() % 5 == 0;
        if (tied || random() % 2 == 0) each.loss[s] = tied ? 0 : 1 + std::int64_t(random() % 10000);
      }
      each.free = random() % 8 == 0;
      each.threads = 32;
      all[{c}] = each;
    }
    for (std::size_t s = 0; s < row_counts; ++s) all[{int(random() % 6)}].loss[s] = 0;
    const auto found = total_of(all, smallest_cover(all, row_counts));
    const auto best = best_of(all, row_counts);
    CAPTURE(trial);
    REQUIRE(found.legal);
    CHECK(found.compiled == best.compiled);
    CHECK(found.loss == best.loss);
  }
}

TEST_CASE("portfolio: a cover that a greedy choice misses") {
  // The greedy choice is {0}, which serves most, and needs two more; {1} and {2} serve all.
  const contenders all = {{{0}, losing({{1, 0}, {2, 0}, {3, 0}, {4, 0}})},
                          {{1}, losing({{0, 0}, {1, 9}, {2, 9}})},
                          {{2}, losing({{3, 9}, {4, 9}, {5, 0}})}};
  const auto found = smallest_cover(all, 6);
  CHECK(std::set<config>(found.begin(), found.end()) == std::set<config>{{1}, {2}});
}

TEST_CASE("portfolio: a loss is paid only where it saves a kernel") {
  contenders all = {{{0}, losing({{0, 5}})}, {{1}, losing({{0, 0}})}};
  CHECK(smallest_cover(all, 1)[0] == config{1});
  all[{0}].free = true;
  CHECK(smallest_cover(all, 1)[0] == config{0});
}

TEST_CASE("portfolio: among equals one known elsewhere, then the incumbent, then fewer threads, then smaller values") {
  contenders all = {{{0}, losing({{0, 0}})}, {{1}, losing({{0, 0}})}};
  CHECK(smallest_cover(all, 1)[0] == config{0});
  all[{1}].threads = 64;
  CHECK(smallest_cover(all, 1)[0] == config{1});
  all[{0}].incumbent = true;
  CHECK(smallest_cover(all, 1)[0] == config{0});
  all[{1}].known = true;
  CHECK(smallest_cover(all, 1)[0] == config{1});
}

TEST_CASE("portfolio: more row counts than one piece holds are all served") {
  contenders all = {{{0}, {}}, {{1}, {}}};
  for (std::size_t s = 0; s < 30; ++s) all[{int(s) % 2}].loss[s] = 0;
  const auto found = smallest_cover(all, 30);
  REQUIRE(found.size() == 30);
  for (std::size_t s = 0; s < 30; ++s) CHECK(found[s] == config{int(s) % 2});
}
