// expect: config.schedule.tile_rows must be at most 15 above 32 lanes
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

static_assert(capstone::detail::legal<capstone::row_config{.reduction = {.lanes = 64},
                                                           .schedule = {.tile_rows = 16}}>::value);
