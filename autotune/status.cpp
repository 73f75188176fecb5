// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/status.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace capstone::tools {
namespace {

constexpr std::array words = {"ok",      "untried",          "pruned", "compile_error", "compile_timeout",
                              "spilled", "wrong",            "nondeterministic", "crash",
                              "timeout", "out_of_memory",    "launch_error",     "implausible"};
static_assert(words.size() == static_cast<std::size_t>(status::implausible) + 1);

}  // namespace

const char* token(status state) { return words.at(static_cast<std::size_t>(state)); }

status status_of(const std::string& word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<status>(found - words.begin());
  std::string known;
  for (const char* each : words) known += (known.empty() ? "" : ", ") + std::string(each);
  throw std::invalid_argument("state is '" + word + "'; expected one of " + known);
}

}  // namespace capstone::tools
