// expect: config.schedule.tile_rows must be 1 in a cluster
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

static_assert(capstone::detail::legal<capstone::row_config{.reduction = {.cluster = 2},
                                                           .schedule = {.tile_rows = 2}}>::value);
