# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""capstone's rms_norm for PyTorch. Forward only: no autograd. `load` compiles once and caches."""

import pathlib

import torch

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "include"


def load(build_directory=None, arch=None):
    """Compiles and registers torch.ops.capstone.rms_norm and rms_norm_residual. `arch`: "90", say; by
    default that of the current GPU."""
    from torch.utils import cpp_extension
    if hasattr(torch.ops.capstone, "rms_norm"):
        return
    if arch is None:
        arch = "%d%d" % torch.cuda.get_device_capability()
    if build_directory is not None:
        pathlib.Path(build_directory).mkdir(parents=True, exist_ok=True)
    cpp_extension.load(
        "capstone_rms_norm", [str(HERE / "binding.cpp"), str(HERE / "kernels.cu")],
        extra_include_paths=[str(INCLUDE)], extra_cflags=["-O2", "-std=c++20"],
        extra_cuda_cflags=["-O3", "-std=c++20", f"-gencode=arch=compute_{arch},code=sm_{arch}"],
        build_directory=build_directory, is_python_module=False)


def rms_norm(x, weight=None, eps=1e-6, out=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last of x's two dimensions."""
    out = torch.empty_like(x) if out is None else out
    torch.ops.capstone.rms_norm(x, weight, eps, out)
    return out


def rms_norm_residual(x, residual, weight=None, eps=1e-6, out=None, residual_out=None):
    """(rms_norm(x + residual), x + residual); out and residual_out may be x and residual themselves."""
    out = torch.empty_like(x) if out is None else out
    residual_out = torch.empty_like(x) if residual_out is None else residual_out
    torch.ops.capstone.rms_norm_residual(x, residual, weight, eps, out, residual_out)
    return out, residual_out
