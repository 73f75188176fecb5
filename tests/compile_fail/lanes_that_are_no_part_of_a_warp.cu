// expect: config.reduction.lanes must be
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

static_assert(capstone::detail::legal<capstone::row_config{.reduction = {.lanes = 24}}>::value);
