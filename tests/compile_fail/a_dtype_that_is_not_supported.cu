// expect: f32, f16 or bf16
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <capstone/rms_norm.cuh>

auto call = &capstone::rms_norm<double>;
