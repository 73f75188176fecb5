// expect: load_bytes must not exceed elements * sizeof(x)
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

// 16 bytes are 8 elements of bf16, a lane owns 4.
using shape = capstone::detail::static_shape<256, 4, 1, 1, 1, 8>;
int lanes = shape::lanes();
