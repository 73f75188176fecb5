// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/stats.hpp"

using namespace capstone::tools;
using numbers = std::vector<double>;

namespace {
const double nan_value = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();
}  // namespace

TEST_CASE("the median is the middle value, or the mean of the two middle values") {
  CHECK(median(numbers{3}) == 3);
  CHECK(median(numbers{5, 1, 3}) == 3);
  CHECK(median(numbers{4, 1, 3, 2}) == 2.5);
  CHECK(median(numbers{2, 2, 2, 9}) == 2);
  CHECK(median(numbers{-1, -5}) == -3);
}

TEST_CASE("a quantile lies on the line between its neighbours") {
  const numbers v = {40, 10, 30, 20};
  CHECK(quantile(v, 0) == 10);
  CHECK(quantile(v, 1) == 40);
  CHECK(quantile(v, 0.5) == 25);
  CHECK(quantile(v, 0.25) == 17.5);
  CHECK(quantile(v, 0.1) == doctest::Approx(13));
  CHECK(quantile(numbers{7}, 0.3) == 7);
}

TEST_CASE("the statistics leave their input as it was") {
  const numbers before = {3, 1, 2};
  numbers v = before;
  median(v);
  quantile(v, 0.5);
  bootstrap_median(v, 1);
  CHECK(v == before);
}

TEST_CASE("a bootstrap interval holds the median and lies within the values") {
  const numbers v = {9, 1, 5, 4, 6, 2, 8, 3, 7};
  const auto band = bootstrap_median(v, 1);
  CHECK(band.low >= 1);
  CHECK(band.low <= 5);
  CHECK(band.high >= 5);
  CHECK(band.high <= 9);
  CHECK(band.low < band.high);
  const auto same = bootstrap_median(numbers{2, 2, 2}, 1);
  CHECK(same.low == 2);
  CHECK(same.high == 2);
}

TEST_CASE("a seed gives one bootstrap interval, on any machine") {
  numbers v;
  for (int i = 0; i < 40; ++i) v.push_back(std::sqrt(i));
  const auto a = bootstrap_median(v, 7);
  const auto b = bootstrap_median(v, 7);
  CHECK(a.low == b.low);
  CHECK(a.high == b.high);
  // Pinned: another value here means that intervals on record can no longer be computed again.
  const auto pinned = bootstrap_median(numbers{1, 2, 3, 4, 5, 6, 7, 8}, 1, 10);
  CHECK(pinned.low == doctest::Approx(2.725));
  CHECK(pinned.high == doctest::Approx(5.8875));
}

TEST_CASE("a wider level gives a wider interval") {
  numbers v;
  for (int i = 0; i < 41; ++i) v.push_back(i);
  const auto narrow = bootstrap_median(v, 3, 1000, 0.5);
  const auto wide = bootstrap_median(v, 3, 1000, 0.99);
  CHECK(wide.low < narrow.low);
  CHECK(wide.high > narrow.high);
}

TEST_CASE("a 95 % bootstrap interval covers the true median about 95 % of the time") {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(10, 1);
  const int trials = 400;
  int covered = 0;
  for (int t = 0; t < trials; ++t) {
    numbers v(40);
    for (auto& x : v) x = normal(random);
    const auto band = bootstrap_median(v, static_cast<std::uint64_t>(t), 400);
    covered += band.low <= 10 && 10 <= band.high;
  }
  CHECK(covered >= trials * 90 / 100);
  CHECK(covered <= trials * 99 / 100);
}

TEST_CASE("a paired ratio is the median of the rounds' ratios, not the ratio of the medians") {
  const auto band = paired_ratio(numbers{1, 10, 100}, numbers{2, 10, 400}, 1);
  CHECK(band.median == 0.5);
  CHECK(median(numbers{1, 10, 100}) / median(numbers{2, 10, 400}) == 1);
  CHECK(band.low >= 0.25);
  CHECK(band.high <= 1);
}

TEST_CASE("drift that both arms share cancels in a paired ratio") {
  numbers slow, fast;
  for (int i = 0; i < 40; ++i) {
    fast.push_back(10 + i);
    slow.push_back(1.25 * (10 + i));
  }
  const auto band = paired_ratio(slow, fast, 1);
  CHECK(band.low == doctest::Approx(1.25));
  CHECK(band.high == doctest::Approx(1.25));
}

TEST_CASE("what has no statistic is refused by the argument's name") {
  const numbers good = {1, 2};
  CHECK_THROWS_WITH_AS(median(numbers{}), "values is empty; expected at least one value",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(median(numbers{1, nan_value}),
                       doctest::Contains("values[1] is nan; expected a finite number"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(quantile(good, 1.5), doctest::Contains("q is 1.5"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(quantile(good, nan_value), doctest::Contains("q is nan"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(bootstrap_median(good, 1, 0), doctest::Contains("resamples is 0"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(bootstrap_median(good, 1, 10, 1), doctest::Contains("level is 1"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(paired_ratio({}, good, 1), doctest::Contains("numerator is empty"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(paired_ratio(good, numbers{1, infinity}, 1),
                       doctest::Contains("denominator[1] is inf"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(paired_ratio(good, numbers{1, 0}, 1),
                       doctest::Contains("denominator[1] is 0"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(paired_ratio(good, numbers{1}, 1),
                       doctest::Contains("denominator has 1 values; expected 2"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(paired_ratio(numbers{1e300}, numbers{1e-300}, 1),
                       doctest::Contains("denominator[0] is too small"), std::invalid_argument);
}

TEST_CASE("the sign test's interval has the order statistics of the binomial table") {
  std::vector<double> us, ones(40, 1.0);
  for (int i = 1; i <= 40; ++i) us.push_back(i);
  const auto found = sign_test_ratio(us, ones);  // 2 P(B(40, 1/2) < 14) = 0.038, < 15: 0.081
  CHECK(found.low == 14);
  CHECK(found.high == 27);
  CHECK(found.median == doctest::Approx(std::sqrt(20.0 * 21)));
  const auto strict = sign_test_ratio(us, ones, 1 - 0.05 / 32);  // < 11: 0.00222, < 10: 0.00068
  CHECK(strict.low == 10);
  CHECK(strict.high == 31);
}

TEST_CASE("the sign test turned round is the same, and of too few rounds proves nothing") {
  const std::vector<double> a = {1, 2, 3, 4, 5, 6}, b = {2, 2, 2, 2, 2, 2};
  const auto there = sign_test_ratio(a, b), back = sign_test_ratio(b, a);
  CHECK(there.low == doctest::Approx(1 / back.high));
  CHECK(there.high == doctest::Approx(1 / back.low));
  CHECK(there.median == doctest::Approx(1 / back.median));
  const std::vector<double> few = {3, 3, 3, 3, 3}, one = {1, 1, 1, 1, 1};
  CHECK(sign_test_ratio(few, one).low == 0);
  CHECK(std::isinf(sign_test_ratio(few, one).high));
  CHECK(sign_test_ratio(few, one).median == 3);
}

TEST_CASE("the sign test refuses what has no logarithm or level") {
  const std::vector<double> a = {1, -1}, b = {1, 1};
  CHECK_THROWS_WITH(sign_test_ratio(a, b), "a ratio is -1.000000; expected times above 0");
  CHECK_THROWS_WITH(sign_test_ratio(b, b, 1), "level is 1.000000; expected a number between 0 and 1");
}
