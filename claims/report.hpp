// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims report`: the records as pages. The pages are made by the Python program in claims/report/.
#pragma once

#include <string>

namespace capstone::claims {

/// Runs it over `evidence` into `folder` ("": report/ in the build folder) and prints the index's
/// path. Returns its exit code, or 1 where no Python with the packages it needs is found.
int report(const std::string& evidence, std::string folder);

}  // namespace capstone::claims
