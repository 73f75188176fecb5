# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. A library user needs CUDA and include/, nothing else; a new kernel is two
files, so nothing but its own spec and tests may know it; yaml-cpp stays behind core/records."""

import pathlib
import re
import sys
import tempfile

from support import SOURCE, fail_if, without_comments

SOURCES = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
CUDA_TYPES = {"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_runtime_api.h"}
YAML = ("core/records.cpp", "tests/fuzz/records.cpp")  # the reader, and what counts on its own what it must not lose
SPEC_EXAMPLES = ("own_kernel.cu", "wrong_model.cu")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"]([^">]*)[">]|\S+)', re.M)


def is_standard(name):
    return re.fullmatch(r"[a-z_0-9]+", name) is not None


def is_cuda(name):
    return re.fullmatch(r"cuda[A-Za-z_0-9]*\.h", name) is not None


def is_library(name):
    return name.startswith("capstone/")


class Tree:
    def __init__(self, root):
        self.root = root
        self.ops = {path.stem for path in (root / "include/capstone").glob("*.cuh")} - {"fused"}

    def is_kernel(self, name):
        """An op's own header or tables, or the umbrella that holds them all."""
        return name == "capstone/fused.cuh" or any(
            re.fullmatch(rf"capstone/(tuned/)?{op}\.(cuh|hpp)", name) for op in self.ops)

    # Each returns nothing, or what the folder may include.
    def include(self, path, name):
        if "tuned" in path.parts and not name.startswith("capstone/detail/"):
            return "a generated table may include capstone/detail/ alone"
        if name in CUDA_TYPES or is_library(name):
            return None
        return "include/ may include capstone/ and " + ", ".join(sorted(CUDA_TYPES))

    def specs(self, path, name):
        if is_library(name) or name.startswith(("core/", "cub/", "thrust/")) or \
                is_standard(name) or is_cuda(name):
            return None
        return "specs/ may include capstone/, core/, CUB, Thrust, CUDA's and the standard headers"

    def tools(self, path, name):
        folder = path.parts[0]
        if self.is_kernel(name) or name.startswith("specs/"):
            return f"{folder}/ may not know a specific kernel"
        others = {"core": ("autotune/", "claims/"), "autotune": ("claims/",),
                  "claims": ("autotune/",)}[folder]
        if name.startswith(others):
            return f"{folder}/ may not include {' or '.join(others)}"
        if name == "nvrtc.h" and folder != "autotune":
            return "only autotune/ may include the run-time compiler"
        return None

    core = autotune = claims = tools

    def examples(self, path, name):
        if name.startswith("core/"):
            return None if path.name in SPEC_EXAMPLES else "only " + " and ".join(SPEC_EXAMPLES) + " show a spec"
        if is_library(name) or is_standard(name) or is_cuda(name):
            return None
        if "pytorch" in path.parts:  # the kernels stay apart from PyTorch's headers: two compilers
            if "/" not in name or (path.suffix == ".cpp" and name.startswith(("ATen/", "c10/", "torch/"))):
                return None
            return "examples/pytorch/ may include PyTorch's headers in its .cpp alone"
        return "examples/ may include capstone/, CUDA's and the standard headers"

    def tests(self, path, name):
        if path.parts[1] == "host" and name.startswith(("core/", "specs/", "autotune/", "claims/")):
            return "tests/host/ may include nothing of ours but capstone/ and tests/"
        return None


def problems(root):
    tree = Tree(root)
    found = []
    for folder in ("include", "specs", "core", "autotune", "claims", "examples", "tests"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            relative = path.relative_to(root)
            code = without_comments(path.read_text())
            lines = [(code.count("\n", 0, match.start()) + 1, match[2] or "", match[1])
                     for match in INCLUDE.finditer(code)]
            for line, name, written in lines:
                why = getattr(tree, folder)(relative, name)
                if not name and folder == "include":
                    why = "include/ may not compute what it includes"
                if name.startswith("yaml-cpp") and str(relative) not in YAML:
                    why = f"only {' and '.join(YAML)} may include yaml-cpp"
                if why:
                    found.append(f"{relative}:{line}: includes {written}: {why}")
            if folder in ("core", "autotune", "claims"):
                for op in tree.ops:
                    for match in re.finditer(rf"capstone::{op}\b|\b{op}\.cuh", code):
                        line = code.count("\n", 0, match.start()) + 1
                        found.append(f"{relative}:{line}: names {match[0]}: "
                                     f"{folder}/ may not know a specific kernel")
    return sorted(set(found))


# Files that are as they should be, and with each the lines that break a rule if added.
CLEAN = {
    "include/capstone/fused.cuh": "#include <capstone/rms_norm.cuh>\n",
    "include/capstone/rms_norm.cuh": "#include <cuda_bf16.h>\n#include <capstone/detail/vec.cuh>\n",
    "include/capstone/detail/vec.cuh": "// #include <vector> is not for us\n",
    "include/capstone/tuned/rms_norm.cuh": "#include <capstone/detail/table.hpp>\n",
    "specs/rms_norm.cu": "#include <cub/cub.cuh>\n#include <vector>\n#include \"core/spec.hpp\"\n",
    "core/spec.hpp": "#include <cuda_runtime_api.h>\n#include <string>\n",
    "core/records.cpp": "#include <yaml-cpp/yaml.h>\n",
    "tests/fuzz/records.cpp": "#include <yaml-cpp/parser.h>\n",
    "autotune/compile.cpp": "#include <nvrtc.h>\n#include \"core/spec.hpp\"\n",
    "claims/bench.cpp": "#include \"core/spec.hpp\"\n",
    "examples/a.cu": "#include <capstone/fused.cuh>\n#include <cstdio>\n",
    "examples/own_kernel.cu": "#include \"core/spec.hpp\"\n",
    "examples/wrong_model.cu": "#include \"core/spec.hpp\"\n",
    "examples/pytorch/a/binding.cpp": "#include <torch/library.h>\n#include \"kernels.hpp\"\n",
    "examples/pytorch/a/kernels.cu": "#include <capstone/fused.cuh>\n#include \"kernels.hpp\"\n",
    "tests/host/edge.cpp": "#include <capstone/fused.cuh>\n#include \"tests/skip.hpp\"\n",
}
PLANTS = {
    "include/capstone/rms_norm.cuh": ["#include <vector>", "#include <cub/cub.cuh>",
                                      "#include \"core/spec.hpp\"", "#  include <cuda/std/array>",
                                      "#include SOME_HEADER"],
    "include/capstone/tuned/rms_norm.cuh": ["#include <capstone/rms_norm.cuh>"],
    "specs/rms_norm.cu": ["#include <yaml-cpp/yaml.h>", "#include \"autotune/space.hpp\"",
                          "#include <CLI/CLI.hpp>"],
    "core/spec.hpp": ["#include <capstone/rms_norm.cuh>", "#include <capstone/fused.cuh>",
                      "#include \"specs/rms_norm.cu\"", "#include \"claims/bench.hpp\"",
                      "#include <yaml-cpp/yaml.h>", "#include <nvrtc.h>",
                      "const char* h = \"capstone/rms_norm.cuh\";",
                      "auto f = capstone::rms_norm<float>;"],
    "autotune/compile.cpp": ["#include <capstone/tuned/rms_norm.cuh>",
                             "#include \"claims/bench.hpp\""],
    "claims/bench.cpp": ["#include \"autotune/space.hpp\"", "#include <nvrtc.h>"],
    "examples/a.cu": ["#include \"core/spec.hpp\"", "#include \"specs/rms_norm.cu\"",
                      "#include \"autotune/space.hpp\""],
    "examples/pytorch/a/binding.cpp": ["#include \"core/spec.hpp\"", "#include \"claims/bench.hpp\""],
    "examples/pytorch/a/kernels.cu": ["#include <ATen/core/Tensor.h>", "#include <torch/extension.h>"],
    "tests/host/edge.cpp": ["#include \"core/compare.hpp\""],
}


def self_test():
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in CLEAN.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        missed += [f"false alarm: {problem}" for problem in problems(root)]
        count = 0
        for name, lines in PLANTS.items():
            for line in lines:
                (root / name).write_text(CLEAN[name] + line + "\n")
                found = problems(root)
                count += 1
                if not found:
                    missed.append(f"not caught: {name}: {line}")
            (root / name).write_text(CLEAN[name])
    fail_if(missed, f"{count} planted violations, each caught; none in clean files")


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
    else:
        fail_if(problems(SOURCE), "every folder includes only what it may")
