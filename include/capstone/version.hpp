// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The version of the library; CMake reads it from here.
#pragma once

#define CAPSTONE_VERSION_MAJOR 0
#define CAPSTONE_VERSION_MINOR 1
#define CAPSTONE_VERSION_PATCH 0
