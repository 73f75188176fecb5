// expect: config.schedule.persistent must not be negative
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

static_assert(capstone::detail::legal<capstone::row_config{.schedule = {.persistent = -1}}>::value);
