// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims verify`: every selected kernel and problem against its float64 reference.
#pragma once

#include <cstdint>

#include "claims/select.hpp"

namespace capstone::claims {

/// Runs one problem and says all that is wrong with it. Throws what CUDA or an allocation throws.
verified verify_problem(const device& where, const op& of, const kernel_spec& kernel,
                        const suite_problem& item, std::uint64_t seed);

/// Bytes `verify_problem` takes on the device.
std::size_t verify_bytes(const kernel_spec& kernel, const problem& what);

/// The command. Returns its exit code: 0 all passed, 3 not.
int verify(const selection& wanted, const device& where);

}  // namespace capstone::claims
