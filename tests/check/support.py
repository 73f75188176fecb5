# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""What the test scripts share: where things are (told by CMake) and how to run and skip."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time


def setting(name, fallback=None):
    value = os.environ.get("CAPSTONE_" + name, fallback)
    if value is None:
        sys.exit(f"CAPSTONE_{name} is not set: run this through ctest, which sets it")
    return value


SOURCE = pathlib.Path(setting("SOURCE", str(pathlib.Path(__file__).resolve().parents[2])))


def skip(reason):
    """Ends the test with the code that ctest reads as 'skipped'; tools/test prints the reasons."""
    print(f"skipped: {reason}")
    sys.exit(77)


def run(command, check=True, quiet=False, **options):
    """Runs a command, echoes it and what it printed; a failure ends the test unless check=False."""
    command = [str(part) for part in command]
    print("$", " ".join(command), flush=True)
    options.setdefault("input", "")  # nothing waits at a prompt
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            **options)
    if not quiet:
        print(result.stdout, end="", flush=True)
    if check and result.returncode != 0:
        sys.exit(f"failed with exit code {result.returncode}: {' '.join(command)}")
    return result


def nvcc(*arguments, check=True, **options):
    return run([setting("NVCC"), "-std=c++20", f"-arch=sm_{setting('ARCH')}", *arguments],
               check=check, **options)


def has_gpu():
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except OSError:
        return False
    return listing.returncode == 0 and "GPU" in listing.stdout


def fresh(name):
    """An empty folder of this test's own in the build folder."""
    folder = pathlib.Path(setting("BUILD")) / "scratch" / re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def repository_view(folder):
    """Fills a folder with links to the repository, its build/ being the real build folder, so that
    commands written for the repository's root run there and write nothing beside the sources."""
    for entry in SOURCE.iterdir():
        if not entry.name.startswith(".") and not entry.name.startswith("build"):
            (folder / entry.name).symlink_to(entry)
    (folder / "build").symlink_to(setting("BUILD"))
    return folder


def shipped_call(op):
    """A file that instantiates all that a call of an op's function would, for bf16, without an
    argument list of this op's own. Nothing if its header has no function of its name."""
    header = f"capstone/{op}.cuh"
    if not re.search(rf"^status {op}\(", (SOURCE / "include" / header).read_text(), re.M):
        return ""
    return f"#include <{header}>\nauto shipped() {{ return &capstone::{op}<capstone::bf16>; }}\n"


def processes():
    """Of every process its number, its parent's and its command line's words, as far as they can be read."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
                yield int(entry.name), int(parent), (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (OSError, IndexError):  # it has ended
            pass


def kill_worker_of(autotune):
    """kill -9 for the worker of a running autotune, as an operator might; whether there was one in time."""
    until = time.monotonic() + 30
    while autotune.poll() is None and time.monotonic() < until:
        for pid, parent, words in processes():
            if parent == autotune.pid and words[1:2] == ["worker"]:
                os.kill(pid, signal.SIGKILL)
                return True
        time.sleep(0.005)
    return False


def without_comments(text):
    """C++ source with its comments blanked, the line numbers kept; strings are left as they are."""
    pattern = r'("(?:\\.|[^"\\\n])*")|(//[^\n]*)|(/\*.*?\*/)'
    blank = lambda match: match[1] or re.sub(r"[^\n]", " ", match[0])
    return re.sub(pattern, blank, text, flags=re.S)


def fail_if(problems, good):
    """The verdict of a checker: every problem on a line of its own, or one sentence."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problem(s)")
    print(good)
