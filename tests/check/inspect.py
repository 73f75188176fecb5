# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The frozen configs compile for their architecture, the run-time path for all we name, without
spills; with a disassembler, 16-byte loads wherever a kernel's config has them."""

import os
import pathlib
import shutil
import sys

from support import run, setting, skip

tool = pathlib.Path(setting("BUILD")) / "bin/autotune"
venv = pathlib.Path(setting("BUILD")) / "venv/bin"
path = os.environ["PATH"] + os.pathsep + str(venv)
can_read = shutil.which("nvdisasm", path=path) or shutil.which("cuobjdump", path=path)
text = run([tool, "inspect", "--defaults"] + (["--require-width", "16"] if can_read else []),
           env={**os.environ, "PATH": path}).stdout
for arch in ("sm_80", "sm_90", "sm_100", "sm_120"):
    if arch not in text:
        sys.exit(f"nothing was compiled for {arch}")
if not can_read:
    skip("no nvdisasm or cuobjdump: load widths were not read (spills were)")
