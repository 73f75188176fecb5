// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// A test that cannot run on this machine says why, and its process exits with the code that ctest
// reads as "skipped". (doctest itself knows no skipping at run time.)
#pragma once

#include <iostream>
#include <string>

namespace capstone::tests {

inline constexpr int skipped_exit_code = 77;

inline std::string& skip_reason() {
  static std::string reason;
  return reason;
}

// tools/test reads this line to print the reasons together.
inline int report_skip(const std::string& reason) {
  std::cout << "skipped: " << reason << std::endl;
  return skipped_exit_code;
}

// What main returns after doctest ran: a failure always outweighs a skip.
inline int exit_code(int doctest_code) {
  if (doctest_code != 0 || skip_reason().empty()) return doctest_code;
  return report_skip(skip_reason());
}

}  // namespace capstone::tests

// In a test case: CAPSTONE_SKIP("no cuobjdump on the PATH");
#define CAPSTONE_SKIP(reason)                    \
  do {                                           \
    ::capstone::tests::skip_reason() = (reason); \
    return;                                      \
  } while (false)
