# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs an example by the lines on its top, as they are printed: the commands above its
licence, then the program that they built, from the repository's root. Without a GPU there is no
"native" architecture, and the tools run on the host device, on a shape that it gets through."""

import pathlib
import re
import sys

from support import fresh, has_gpu, repository_view, run, setting

example = pathlib.Path(sys.argv[1])
commands = []
for line in example.read_text().splitlines():
    command = re.fullmatch(r"// ?(.*)", line)
    if not command or "SPDX" in line:
        break
    if command[1]:
        commands.append(command[1])
if not any(command.startswith("nvcc ") for command in commands):
    sys.exit(f"{example.name}: its first lines are not the commands that build and run it")

root = repository_view(fresh("example_" + example.stem))
for command in commands:
    if not has_gpu():
        command = command.replace("-arch=native", f"-arch=sm_{setting('ARCH')}")
        command = re.sub(r"^(build/bin/\w+( verify| bench)?)", r"\1 --device host", command)
        command = re.sub(r"--shape \S+", "--shape 64x1024", command)
    run(["bash", "-euo", "pipefail", "-c", command], cwd=root)
    built = re.search(r"^nvcc .* -o (\S+)", command)
    if built and not built[1].endswith(".so"):
        run([root / built[1]], cwd=root)
