// expect: config.schedule.tile_rows must be at least 1 and lanes * tile_rows at most 1024
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

static_assert(capstone::detail::legal<capstone::row_config{.reduction = {.lanes = 256},
                                                           .schedule = {.tile_rows = 5}}>::value);
