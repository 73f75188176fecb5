# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""A header that compiles as the only include of a file, twice over, for device and host."""

import sys

from support import SOURCE, fresh, nvcc, run, setting

header = sys.argv[1]
folder = fresh("header_" + header)
source = folder / "only.cu"
source.write_text(f"#include <{header}>\n#include <{header}>\n")
nvcc("-I", SOURCE / "include", "-c", source, "-o", folder / "only.o")
includes = [f"-isystem{path}" for path in setting("CUDA_INCLUDE").split(":")]
run([setting("CXX"), "-std=c++20", "-Wall", "-Wextra", "-fsyntax-only", "-x", "c++",
     f"-I{SOURCE / 'include'}", *includes, source])
