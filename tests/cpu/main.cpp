// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// Alone in its file: compiling doctest's implementation takes longer than most tests do.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/skip.hpp"

int main(int argc, char** argv) {
  return capstone::tests::exit_code(doctest::Context(argc, argv).run());
}
