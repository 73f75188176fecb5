# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The headers under CUDA 12.9's compiler. PyPI has no nvcc of 12.9, but its parts: NVRTC (the same
front end, optimiser and assembler) and the headers. So the shipped kernels of each op are compiled
by NVRTC 12.9 to machine code, and the host side by g++ over the 12.9 headers."""

import ctypes
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "check"))
from support import SOURCE, fresh, nvcc, run, setting, shipped_call, skip  # noqa: E402

PACKAGES = ["nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-cuda-runtime-cu12==12.9.79",
            "nvidia-cuda-nvcc-cu12==12.9.86"]  # the last one for crt/host_defines.h and its like


def toolkit():
    """Downloads the parts once; returns the folder that holds them."""
    folder = pathlib.Path(setting("BUILD")) / "cuda-12.9"
    if not (folder / "complete").exists():
        # A virtual environment: a system's own Python may be closed to pip, or have none.
        venv = pathlib.Path(setting("BUILD")) / "venv"
        if not (venv / "bin/pip").exists() and \
                run([sys.executable, "-m", "venv", venv], check=False).returncode != 0:
            skip("CUDA 12.9's compiler comes from PyPI, and Python here has no venv")
        result = run([venv / "bin/pip", "install", "--quiet", "--no-deps", "--upgrade",
                      "--disable-pip-version-check", "--target", folder, *PACKAGES], check=False)
        if result.returncode != 0:
            skip("CUDA 12.9's compiler could not be had from PyPI (pip said why, above)")
        (folder / "complete").touch()
    return folder / "nvidia"


class Nvrtc:
    def __init__(self, folder):
        ctypes.CDLL(str(folder / "libnvrtc-builtins.so.12.9"), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(folder / "libnvrtc.so.12"))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, source, names, options):
        """Returns the error, or '' and the size of the machine code."""
        program = ctypes.c_void_p()
        call = self.library
        call.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"headers.cu", 0, None,
                                None)
        for name in names:
            call.nvrtcAddNameExpression(program, name.encode())
        encoded = [option.encode() for option in options]
        code = call.nvrtcCompileProgram(program, len(encoded),
                                        (ctypes.c_char_p * len(encoded))(*encoded))
        size = ctypes.c_size_t()
        if code != 0:
            call.nvrtcGetProgramLogSize(program, ctypes.byref(size))
            log = ctypes.create_string_buffer(size.value)
            call.nvrtcGetProgramLog(program, log)
            return log.value.decode(), 0
        call.nvrtcGetCUBINSize(program, ctypes.byref(size))
        return "", size.value


def shipped_kernels(folder, op):
    """The kernels that a call of an op's function instantiates, as C++ would name them."""
    source = folder / f"{op}.cu"
    source.write_text(shipped_call(op))
    cubin = folder / f"{op}.cubin"
    nvcc("-I", SOURCE / "include", "-cubin", source, "-o", cubin)
    sections = run(["readelf", "-SW", cubin], quiet=True).stdout
    mangled = sorted(set(re.findall(r"\s\.text\.(\S+)", sections)))
    demangled = run(["c++filt"], quiet=True, input="\n".join(mangled)).stdout.splitlines()
    return [without_arguments(name) for name in demangled]


def without_arguments(name):
    """'a::entry<b<c> >' of 'void a::entry<b<c> >(b<c>::params)'."""
    name, depth = name.removeprefix("void "), 0
    for place, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == ">" and depth == 0:
            return name[:place + 1]
    sys.exit(f"not a kernel template: {name}")


own_folder = fresh("cuda_12_9")
parts = toolkit()
includes = [parts / "cuda_runtime/include", parts / "cuda_nvcc/include"]
compiler = Nvrtc(parts / "cuda_nvrtc/lib")
assert compiler.version == "12.9", compiler.version
flags = ["-std=c++20", "-default-device", f"-arch=sm_{setting('ARCH')}", f"-I{SOURCE / 'include'}",
         *(f"-I{folder}" for folder in includes)]

ops = [path.stem for path in sorted((SOURCE / "include/capstone").glob("*.cuh"))
       if path.stem != "fused" and shipped_call(path.stem)]
for op in ops:
    kernels = shipped_kernels(own_folder, op)
    error, size = compiler.compile(f"#include <capstone/{op}.cuh>\n", kernels, flags)
    if error:
        sys.exit(f"NVRTC {compiler.version} refuses {op}:\n{error}")
    print(f"{op}: {len(kernels)} kernels, {size} bytes of machine code by NVRTC {compiler.version}")

host = own_folder / "host.cpp"
host.write_text("#include <capstone/fused.cuh>\n#if CUDART_VERSION / 10 != 1209\n"
                "#error these are not the headers of CUDA 12.9\n#endif\n")
run([setting("CXX"), "-std=c++20", "-Wall", "-fsyntax-only", f"-I{SOURCE / 'include'}",
     *(f"-isystem{folder}" for folder in includes), host])
