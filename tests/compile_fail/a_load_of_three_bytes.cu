// expect: config.schedule.load_bytes must be
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

static_assert(capstone::detail::legal<capstone::row_config{.schedule = {.load_bytes = 3}}>::value);
