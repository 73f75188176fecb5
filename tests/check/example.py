# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs an example by the lines on its top, as they are printed:
// build: <command>    needs no GPU
// run: <command>      needs a GPU
// run on any machine: <command>
each from the repository's root. There may be several of each; they run in order."""

import pathlib
import re
import sys

from support import SOURCE, fresh, has_gpu, repository_view, run

example = pathlib.Path(sys.argv[1])
lines = re.findall(r"^// (build|run|run on any machine): (.+)$", example.read_text(), re.M)
if not any(kind == "build" for kind, _ in lines):
    sys.exit(f"{example.name} has no line '// build: <command>' on its top")
if not any(kind.startswith("run") for kind, _ in lines):
    sys.exit(f"{example.name} has no line '// run: <command>' on its top")

root = repository_view(fresh("example_" + example.stem))
waiting = []
for kind, command in lines:
    if kind == "run" and not has_gpu():
        waiting.append(command)
        continue
    run(["bash", "-euo", "pipefail", "-c", command], cwd=root)
if waiting:
    print(f"built; not run: no GPU: {'; '.join(waiting)}")
