// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "core/spec.hpp"

using namespace capstone::tools;

TEST_CASE("specs: every config field has an axis or is declared fixed") {
  REQUIRE_FALSE(registry().empty());
  for (const op& of : registry()) {
    CAPTURE(of.name);
    CHECK(of.axes.size() + of.fixed_fields.size() == of.config_fields);
    std::set<std::string> names(of.fixed_fields.begin(), of.fixed_fields.end());
    for (const axis& a : of.axes) CHECK(names.insert(a.name).second);
    // Each axis sets a field of its own: after all are set to values of their own, all read back.
    std::vector<int> fields(of.config_fields, 0);
    for (std::size_t i = 0; i < of.axes.size(); ++i) of.axes[i].set(fields.data(), int(i) + 1);
    for (std::size_t i = 0; i < of.axes.size(); ++i) CHECK(of.axes[i].get(fields.data()) == int(i) + 1);
  }
}
