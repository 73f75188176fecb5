// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "core/stats.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace capstone::tools {
namespace {

void require_samples(std::span<const double> values, const char* name) {
  if (values.empty()) {
    throw std::invalid_argument(std::string(name) + " is empty; expected at least one value");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      throw std::invalid_argument(std::string(name) + "[" + std::to_string(i) + "] is " +
                                  std::to_string(values[i]) + "; expected a finite number");
    }
  }
}

// Reorders its argument; the public functions copy first.
double median_in_place(std::vector<double>& v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  if (v.size() % 2 == 1) return *middle;
  return std::midpoint(*std::max_element(v.begin(), middle), *middle);
}

double quantile_of_sorted(std::span<const double> sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - static_cast<double>(below));
}

// splitmix64: std::uniform_int_distribution differs between standard libraries, and an interval
// on record must come out the same wherever it is computed again.
class index_stream {
 public:
  explicit index_stream(std::uint64_t seed) : state_(seed) {}

  std::size_t below(std::size_t n) {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<std::size_t>(((z >> 32) * static_cast<std::uint64_t>(n)) >> 32);
  }

 private:
  std::uint64_t state_;
};

// Checks a pair of samples and returns its ratios.
std::vector<double> ratios_of(std::span<const double> numerator, std::span<const double> denominator) {
  require_samples(numerator, "numerator");
  require_samples(denominator, "denominator");
  if (numerator.size() != denominator.size()) {
    throw std::invalid_argument("denominator has " + std::to_string(denominator.size()) +
                                " values; expected " + std::to_string(numerator.size()) +
                                ", one for each of numerator");
  }
  std::vector<double> ratios(numerator.size());
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    const auto at = [&] { return "denominator[" + std::to_string(i) + "]"; };
    if (denominator[i] == 0) throw std::invalid_argument(at() + " is 0; expected another number");
    ratios[i] = numerator[i] / denominator[i];
    if (!std::isfinite(ratios[i])) {
      throw std::invalid_argument(at() + " is too small for its numerator; expected a ratio that "
                                  "fits a double");
    }
  }
  return ratios;
}

}  // namespace

double median(std::span<const double> values) {
  require_samples(values, "values");
  std::vector<double> copy(values.begin(), values.end());
  return median_in_place(copy);
}

double quantile(std::span<const double> values, double q) {
  require_samples(values, "values");
  if (!(q >= 0 && q <= 1)) {
    throw std::invalid_argument("q is " + std::to_string(q) + "; expected a number from 0 to 1");
  }
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return quantile_of_sorted(copy, q);
}

interval bootstrap_median(std::span<const double> values, std::uint64_t seed, int resamples,
                          double level) {
  require_samples(values, "values");
  if (values.size() > 0xffffffffu) {
    throw std::invalid_argument("values has " + std::to_string(values.size()) +
                                " entries; expected fewer than 2^32");
  }
  if (resamples < 1) {
    throw std::invalid_argument("resamples is " + std::to_string(resamples) +
                                "; expected at least 1");
  }
  if (!(level > 0 && level < 1)) {
    throw std::invalid_argument("level is " + std::to_string(level) +
                                "; expected a number between 0 and 1");
  }
  index_stream indices(seed);
  std::vector<double> draw(values.size());
  std::vector<double> medians(static_cast<std::size_t>(resamples));
  for (double& m : medians) {
    for (double& d : draw) d = values[indices.below(values.size())];
    m = median_in_place(draw);
  }
  std::sort(medians.begin(), medians.end());
  const double tail = (1 - level) / 2;
  return {quantile_of_sorted(medians, tail), quantile_of_sorted(medians, 1 - tail)};
}

ratio_band paired_ratio(std::span<const double> numerator, std::span<const double> denominator,
                        std::uint64_t seed) {
  const auto ratios = ratios_of(numerator, denominator);
  const interval band = bootstrap_median(ratios, seed);
  return {median(ratios), band.low, band.high};
}

ratio_band sign_test_ratio(std::span<const double> numerator, std::span<const double> denominator, double level) {
  if (!(level > 0 && level < 1)) {
    throw std::invalid_argument("level is " + std::to_string(level) + "; expected a number between 0 and 1");
  }
  auto ratios = ratios_of(numerator, denominator);
  std::sort(ratios.begin(), ratios.end());
  if (ratios.front() <= 0) {
    throw std::invalid_argument("a ratio is " + std::to_string(ratios.front()) + "; expected times above 0");
  }
  const auto n = ratios.size();
  // The middle in logarithms, so that a / b and b / a agree.
  const double middle = n % 2 == 1 ? ratios[n / 2] : std::sqrt(ratios[n / 2 - 1]) * std::sqrt(ratios[n / 2]);
  // The median lies outside of the k-th smallest and largest with probability 2 P(Binomial(n, 1/2) < k).
  std::size_t k = 0;
  double term = std::exp2(-static_cast<double>(n)), below = 0;
  while (2 * (below + term) <= 1 - level && 2 * (k + 1) <= n) {
    below += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    ++k;
  }
  if (k == 0) return {middle, 0, std::numeric_limits<double>::infinity()};
  return {middle, ratios[k - 1], ratios[n - k]};
}

}  // namespace capstone::tools
