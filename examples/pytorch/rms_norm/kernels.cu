// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "kernels.hpp"

#include <capstone/rms_norm.cuh>

namespace capstone_torch {
namespace {

template <class X, class W>
std::string run(const rms_norm_call& c, cudaStream_t stream) {
  const capstone::status status = capstone::rms_norm<X, W>(
      {.x = static_cast<const X*>(c.x),
       .residual = static_cast<const X*>(c.residual),
       .weight = static_cast<const W*>(c.weight),
       .y = static_cast<X*>(c.out),
       .residual_out = static_cast<X*>(c.residual_out),
       .rows = c.rows,
       .cols = c.cols,
       .eps = c.eps,
       .x_stride = c.x_stride,
       .residual_stride = c.residual_stride,
       .y_stride = c.out_stride,
       .residual_out_stride = c.residual_out_stride},
      stream);
  return status.ok() ? "" : status.sentence().c_str();
}

template <class X>
std::string run_as(const rms_norm_call& c, cudaStream_t stream) {
  return c.weight_type == c.type ? run<X, X>(c, stream) : run<X, float>(c, stream);
}

}  // namespace

std::string rms_norm(const rms_norm_call& c, cudaStream_t stream) {
  switch (c.type) {
    case dtype::f32:
      return run<float, float>(c, stream);
    case dtype::f16:
      return run_as<capstone::f16>(c, stream);
    case dtype::bf16:
      return run_as<capstone::bf16>(c, stream);
    case dtype::other:
      break;
  }
  return "dtype is none of f32, f16 and bf16";
}

}  // namespace capstone_torch
