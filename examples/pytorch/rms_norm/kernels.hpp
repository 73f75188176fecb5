// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What crosses between the file that sees PyTorch (binding.cpp, compiled by the host compiler) and
/// the file that sees the kernels (kernels.cu, compiled by nvcc): neither pays for the other's headers.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace capstone_torch {

enum class dtype { f32, f16, bf16, other };

struct rms_norm_call {
  const void *x, *residual, *weight;  // residual and weight may be null
  void *out, *residual_out;
  long long rows, cols, x_stride, residual_stride, out_stride, residual_out_stride;
  float eps;
  dtype type, weight_type;
};

/// "" once the kernel is enqueued, else the sentence of the failure.
std::string rms_norm(const rms_norm_call& call, cudaStream_t stream);

}  // namespace capstone_torch
