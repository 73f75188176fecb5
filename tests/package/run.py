# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Builds a user's program in each of the documented ways, and runs it if there is a GPU (the
program itself says "built; not run: no GPU")."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "check"))
from support import SOURCE, fresh, nvcc, run, setting  # noqa: E402


def plain(folder):
    for name in ("consumer", "second"):
        nvcc("-I", SOURCE / "include", "-c", HERE / f"{name}.cu", "-o", folder / f"{name}.o")
    nvcc(folder / "consumer.o", folder / "second.o", "-o", folder / "consumer")
    return folder / "consumer"


def cmake(folder, way, *options):
    run([setting("CMAKE"), "-S", HERE / "consumer", "-B", folder / "build",
         "-G", setting("GENERATOR"), f"-DCMAKE_CUDA_COMPILER={setting('NVCC')}",
         f"-DCMAKE_CUDA_ARCHITECTURES={setting('ARCH')}", f"-DCONSUMER_WAY={way}",
         f"-DCAPSTONE_SOURCE={SOURCE}", *options])
    run([setting("CMAKE"), "--build", folder / "build"])
    return folder / "build" / "consumer"


def find_package(folder):
    prefix = folder / "prefix"
    # Installing the library needs neither CUDA nor any of the tools' libraries.
    run([setting("CMAKE"), "-S", SOURCE, "-B", folder / "library", "-G", setting("GENERATOR"),
         "-DCAPSTONE_BUILD_TOOLS=OFF", "-DCAPSTONE_BUILD_TESTS=OFF",
         "-DCAPSTONE_BUILD_EXAMPLES=OFF"])
    run([setting("CMAKE"), "--install", folder / "library", "--prefix", prefix])
    unwanted = [path for path in prefix.rglob("*") if path.suffix in (".yaml", ".cpp", ".so", ".a")]
    if unwanted:
        sys.exit(f"installed beside the headers: {unwanted}")
    return cmake(folder, "find_package", f"-DCMAKE_PREFIX_PATH={prefix}")


way = sys.argv[1]
own_folder = fresh("package_" + way)
if way == "plain":
    program = plain(own_folder)
elif way == "find_package":
    program = find_package(own_folder)
else:
    program = cmake(own_folder, way)
run([program])
