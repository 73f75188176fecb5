# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md's promise: a new kernel is two files, and no other is edited. In a temporary copy
of the sources, the example's two parts become those files; the copy is configured and built, and
the kernel is found, tuned, frozen, verified and raced by the tools, on the host device."""

import re
import shutil
import sys

from support import SOURCE, fresh, run, setting

OP, EXAMPLE = "l2_normalize", "examples/own_kernel.cu"
FOLDERS = ["cmake", "include", "specs", "core", "autotune", "claims"]


def two_files():
    """The example split at the lines that name its parts, as CONTRIBUTING.md says."""
    text = (SOURCE / EXAMPLE).read_text()
    parts = re.split(r"^// -+ (\S+) -+\n", text, flags=re.M)
    parts = dict(zip(parts[1::2], parts[2::2]))
    header, spec = f"include/capstone/{OP}.cuh", f"specs/{OP}.cu"
    if set(parts) != {header, spec}:
        sys.exit(f"{EXAMPLE} has the parts {sorted(parts)}, not {header} and {spec}")
    return {header: "#pragma once\n" + parts[header],
            spec: f"#include <capstone/{OP}.cuh>\n" +
                  parts[spec].replace(EXAMPLE, f"capstone/{OP}.cuh")}


copy = fresh("two_files")
for name in FOLDERS:
    shutil.copytree(SOURCE / name, copy / name)
for name in ("CMakeLists.txt", "LICENSE"):
    shutil.copy(SOURCE / name, copy / name)
# The shipped kernels' specs take most of a build and are not the point.
for spec in (copy / "specs").glob("*.cu"):
    spec.unlink()
for name, text in two_files().items():
    (copy / name).write_text(text)

build = copy / "build"
run([setting("CMAKE"), "-S", copy, "-B", build, "-G", setting("GENERATOR"),
     "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CUDA_COMPILER={setting('NVCC')}",
     f"-DCMAKE_CUDA_ARCHITECTURES={setting('ARCH')}", "-DCAPSTONE_BUILD_TESTS=OFF",
     "-DCAPSTONE_BUILD_EXAMPLES=OFF"])
run([setting("CMAKE"), "--build", build, "--parallel", "2"])

selection = ["--device", "host", "--kernel", OP, "--dtype", "f16"]
for command in (["autotune", "space", *selection, "--shape", "64x1024"],
                ["claims", "verify", *selection, "--suite", "edge", "--out", build / "own"],
                ["autotune", *selection, "--shape", "64x1024", "--out", build / "own"],
                ["claims", "verify", *selection, "--shape", "64x1024", "--out", build / "own"]):
    result = run([build / "bin" / command[0], *command[1:]], cwd=copy)
    if OP not in result.stdout:
        sys.exit(f"{command[0]} says nothing of {OP}")
for made in (f"configs/host/{OP}.f16.yaml", f"include/capstone/tuned/{OP}.cuh"):
    if not (build / "own" / made).exists():
        sys.exit(f"autotune froze nothing to {made}")
print("two files, and the kernel is tuned, frozen and verified")
