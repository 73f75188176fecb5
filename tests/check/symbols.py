# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""What a program holds. Nothing that tunes, compiles or loads a module may be reachable while
`claims` measures; that it is not even in the binary is the strongest way to say so."""

import argparse
import re
import subprocess
import sys

from support import fail_if

COMPILER_LIBRARY = re.compile(r"lib(nvrtc|nvJitLink|nvvm|nvptxcompiler)[-.\w]*")
COMPILER_SYMBOL = re.compile(r"nvrtc\w+|nvJitLink\w+|nvPTXCompiler\w+")
MODULE_LOAD = re.compile(r"cu(Module|Library|Link)(Load|Create|Add)\w*|cudaLibraryLoad\w*")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def symbols(files, kinds):
    """The names of one kind (letters of nm) in some files."""
    if not files:
        return set()
    lines = output("nm", *files).splitlines()
    pattern = re.compile(rf"^[0-9a-f ]* ([{kinds}]) (\S+)$")
    # Without the library and version that a dynamic symbol carries: name@libx.so.1.
    return {match[2].split("@")[0] for match in map(pattern.match, lines) if match}


def problems(program, tuner, own):
    found = [f"links {line.strip()}" for line in output("ldd", program).splitlines()
             if COMPILER_LIBRARY.search(line)]
    inside = symbols([program], "TtWU")
    found += [f"holds the compiler's {name}" for name in sorted(inside)
              if COMPILER_SYMBOL.fullmatch(name)]
    # Functions defined in autotune/ and nowhere in the objects that a program shares with it.
    tuner_only = symbols(tuner, "T") - symbols([file for file in own if file not in tuner], "TW")
    if not tuner_only - {"main"}:
        found.append("autotune/ defines no function: this check would prove nothing")
    found += [f"holds the tuner's {name}" for name in sorted(inside & tuner_only)]
    # The runtime library itself can load modules; our own objects may not ask it to.
    for file in own:
        asked = {name for name in symbols([file], "U") if MODULE_LOAD.fullmatch(name)}
        with open(file, "rb") as content:
            asked |= {match.decode() for match in
                      re.findall(rb"cu(?:Module|Library|Link)(?:Load|Create|Add)\w*|libnvrtc\w*",
                                 content.read())}
        found += [f"{file} asks for {name}" for name in sorted(asked)]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--tuner", nargs="+", required=True)
    parser.add_argument("--own", nargs="+", required=True)
    parser.add_argument("--expect-violations", action="store_true")
    arguments = parser.parse_args()
    result = problems(arguments.program, arguments.tuner, arguments.own)
    if arguments.expect_violations:
        kinds = ("links lib", "holds the compiler's", "holds the tuner's", "asks for")
        missing = [f"not caught: a program that {kind} ..." for kind in kinds
                   if not any(kind.replace("links lib", "links") in line for line in result)]
        fail_if(missing, f"{len(result)} violations caught, of every kind")
    else:
        fail_if(result, f"{arguments.program}: no tuner, compiler or module load")
