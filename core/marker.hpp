// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// A kernel that does nothing: in a profiler's report it stands before each call of a library
/// function, so that the rows that follow are that call's kernels, however many they are.
#pragma once

namespace capstone::tools {

inline constexpr const char* marker_symbol = "capstone_profile_marker";

/// Throws std::runtime_error if the launch fails.
void launch_marker(void* stream);

}  // namespace capstone::tools
