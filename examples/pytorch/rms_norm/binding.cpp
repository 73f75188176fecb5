// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Two operators of PyTorch's over capstone::rms_norm. They write into tensors of the caller's, allocate
// nothing, enqueue on the current stream and never synchronise, so that a CUDA graph can hold them.

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <optional>

#include "kernels.hpp"

namespace {

using at::Tensor;
using capstone_torch::dtype;

dtype dtype_of(const Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat:
      return dtype::f32;
    case at::kHalf:
      return dtype::f16;
    case at::kBFloat16:
      return dtype::bf16;
    default:
      return dtype::other;
  }
}

/// Rows of any stride, elements of a row side by side; the stride of the rows.
long long row_stride(const char* name, const Tensor& t) {
  TORCH_CHECK_VALUE(t.dim() == 2, name, " has ", t.dim(), " dimensions; expected 2, (rows, cols)");
  TORCH_CHECK_VALUE(t.size(1) <= 1 || t.stride(1) == 1, name, " has stride ", t.stride(1),
                    " in its last dimension; expected 1");
  TORCH_CHECK_VALUE(t.size(0) <= 1 || t.stride(0) >= t.size(1), name, " has row stride ", t.stride(0),
                    "; expected at least its ", t.size(1), " columns");
  return t.size(0) <= 1 ? t.size(1) : t.stride(0);
}

void expect_like_x(const char* name, const Tensor& t, const Tensor& x) {
  TORCH_CHECK_VALUE(t.device() == x.device(), name, " is on ", t.device(), "; expected ", x.device(),
                    ", as x");
  TORCH_CHECK_VALUE(t.scalar_type() == x.scalar_type(), name, " is ", t.scalar_type(), "; expected ",
                    x.scalar_type(), ", as x");
  TORCH_CHECK_VALUE(t.sizes() == x.sizes(), name, " has sizes ", t.sizes(), "; expected ", x.sizes(),
                    ", as x");
}

void run(const Tensor& x, const Tensor* residual, const std::optional<Tensor>& weight, double eps,
         const Tensor& out, const Tensor* residual_out) {
  TORCH_CHECK_VALUE(x.is_cuda(), "x is on ", x.device(), "; expected a CUDA device");
  TORCH_CHECK_VALUE(dtype_of(x) != dtype::other, "x is ", x.scalar_type(),
                    "; expected Float, Half or BFloat16");
  capstone_torch::rms_norm_call call{};
  call.x_stride = row_stride("x", x);
  TORCH_CHECK_VALUE(x.size(1) > 0, "x has 0 columns; expected 1 or more");
  expect_like_x("out", out, x);
  call.out_stride = row_stride("out", out);
  if (residual != nullptr) {
    expect_like_x("residual", *residual, x);
    expect_like_x("residual_out", *residual_out, x);
    call.residual_stride = row_stride("residual", *residual);
    call.residual_out_stride = row_stride("residual_out", *residual_out);
    call.residual = residual->const_data_ptr();
    call.residual_out = residual_out->mutable_data_ptr();
  }
  call.type = call.weight_type = dtype_of(x);
  if (weight) {
    const Tensor& w = *weight;
    TORCH_CHECK_VALUE(w.device() == x.device(), "weight is on ", w.device(), "; expected ", x.device(),
                      ", as x");
    TORCH_CHECK_VALUE(w.dim() == 1 && w.size(0) == x.size(1), "weight has sizes ", w.sizes(),
                      "; expected [", x.size(1), "], the columns of x");
    TORCH_CHECK_VALUE(w.is_contiguous(), "weight has stride ", w.stride(0), "; expected 1");
    TORCH_CHECK_VALUE(w.scalar_type() == x.scalar_type() || w.scalar_type() == at::kFloat, "weight is ",
                      w.scalar_type(), "; expected ", x.scalar_type(), ", as x, or Float");
    call.weight = w.const_data_ptr();
    call.weight_type = dtype_of(w);
  }
  call.x = x.const_data_ptr();
  call.out = out.mutable_data_ptr();
  call.rows = x.size(0);
  call.cols = x.size(1);
  call.eps = static_cast<float>(eps);
  const c10::cuda::CUDAGuard guard(x.device());
  const std::string why = capstone_torch::rms_norm(call, c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK_VALUE(why.empty(), "rms_norm: ", why);
}

void rms_norm(const Tensor& x, const std::optional<Tensor>& weight, double eps, Tensor out) {
  run(x, nullptr, weight, eps, out, nullptr);
}

void rms_norm_residual(const Tensor& x, const Tensor& residual, const std::optional<Tensor>& weight,
                       double eps, Tensor out, Tensor residual_out) {
  run(x, &residual, weight, eps, out, &residual_out);
}

}  // namespace

TORCH_LIBRARY(capstone, library) {
  library.def("rms_norm(Tensor x, Tensor? weight, float eps, Tensor(a!) out) -> ()", &rms_norm);
  library.def(
      "rms_norm_residual(Tensor x, Tensor residual, Tensor? weight, float eps, Tensor(a!) out, "
      "Tensor(b!) residual_out) -> ()",
      &rms_norm_residual);
}
