// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// All fused kernels of capstone.
#pragma once

#include <capstone/rms_norm.cuh>
#include <capstone/version.hpp>
