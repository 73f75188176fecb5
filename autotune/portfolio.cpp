// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/portfolio.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

namespace capstone::tools {
namespace {

// Compiled, total loss, not known, not incumbent, threads: compared in this order, added up over configs.
using cost = std::array<std::int64_t, 5>;

struct block {
  cost price{};
  const config* values = nullptr;
};

std::optional<cost> price_of(const contender& each, unsigned rows) {
  cost price = {each.free ? 0 : 1, 0, each.known ? 0 : 1, each.incumbent ? 0 : 1, each.threads};
  for (std::size_t s = 0; rows >> s != 0; ++s) {
    if ((rows >> s & 1) == 0) continue;
    const auto found = each.loss.find(s);
    if (found == each.loss.end()) return std::nullopt;
    price[1] += found->second;
  }
  return price;
}

std::vector<config> cover(const std::map<config, contender>& contenders, std::size_t row_counts) {
  const unsigned all = (1u << row_counts) - 1;
  std::vector<block> blocks(all + 1);  // for every set of row counts the one config that serves it best
  for (unsigned rows = 1; rows <= all; ++rows) {
    for (const auto& [values, each] : contenders) {  // in lexicographic order: the first of equals stays
      const auto price = price_of(each, rows);
      if (price && (blocks[rows].values == nullptr || *price < blocks[rows].price)) blocks[rows] = {*price, &values};
    }
  }
  // The best partition of a set: its lowest row count's block, and the best partition of the others.
  struct step {
    cost price{};
    unsigned first = 0;
    bool possible = false;
  };
  std::vector<step> best(all + 1);
  best[0].possible = true;
  for (unsigned rows = 1; rows <= all; ++rows) {
    const unsigned lowest = rows & (~rows + 1);
    for (unsigned first = rows; first != 0; first = (first - 1) & rows) {
      const auto& rest = best[rows ^ first];
      if ((first & lowest) == 0 || blocks[first].values == nullptr || !rest.possible) continue;
      cost price = blocks[first].price;
      for (std::size_t i = 0; i < price.size(); ++i) price[i] += rest.price[i];
      if (!best[rows].possible || price < best[rows].price) best[rows] = {price, first, true};
    }
  }
  if (!best[all].possible) throw std::logic_error("smallest_cover: a row count has no contender");
  std::vector<config> found(row_counts);
  for (unsigned rows = all; rows != 0; rows ^= best[rows].first) {
    for (std::size_t s = 0; s < row_counts; ++s) {
      if (best[rows].first >> s & 1) found[s] = *blocks[best[rows].first].values;
    }
  }
  return found;
}

}  // namespace

std::vector<config> smallest_cover(const std::map<config, contender>& contenders, std::size_t row_counts) {
  // The partitions of 12 are half a million steps. Beyond that a piece at a time, on top of what the
  // pieces before have compiled.
  constexpr std::size_t piece = 12;
  auto left = contenders;
  std::vector<config> found;
  for (std::size_t begin = 0; begin < row_counts; begin += piece) {
    const auto count = std::min(piece, row_counts - begin);
    auto here = left;
    for (auto& [values, each] : here) {
      std::map<std::size_t, std::int64_t> loss;
      for (const auto& [s, ppm] : each.loss) {
        if (s >= begin && s < begin + count) loss[s - begin] = ppm;
      }
      each.loss = std::move(loss);
    }
    for (const auto& values : cover(here, count)) {
      found.push_back(values);
      left.at(values).free = true;
    }
  }
  return found;
}

}  // namespace capstone::tools
