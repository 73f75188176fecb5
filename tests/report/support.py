# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""What the report's tests share: a Python that has the report's packages, and reports of synthetic
records."""

import os
import pathlib
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAPSTONE_BUILD", SOURCE / "build"))
REPORT = SOURCE / "claims/report"
PACKAGES = ("yaml", "matplotlib", "jinja2")


def skip(reason):
    """Ends the test with the code that ctest reads as 'skipped'."""
    print(f"skipped: {reason}")
    sys.exit(77)


def fail_if(problems, good):
    """The verdict of a checker: every problem on a line of its own, or one sentence."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problem(s)")
    print(good)


def use_python_with_packages():
    """Runs this script again with build/venv's Python if this one lacks a package; skips if that one does
    too."""
    test = [sys.executable, "-c", "import " + ", ".join(PACKAGES)]
    if subprocess.run(test, capture_output=True).returncode == 0:
        return
    other = BUILD / "venv/bin/python"
    if other.exists() and subprocess.run([other, *test[1:]], capture_output=True).returncode == 0:
        os.execv(other, [str(other), *sys.argv])
    skip(
        f"neither {sys.executable} nor {other} has {', '.join(PACKAGES)}: pip install -r "
        "claims/report/requirements.txt"
    )


def fresh(name):
    """An empty folder of this test's own in the build folder."""
    folder = BUILD / "scratch" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def report(*arguments, check=True):
    """Runs `claims report`."""
    result = subprocess.run(
        [sys.executable, "-B", REPORT, *map(str, arguments)], text=True, capture_output=True
    )
    if check and result.returncode != 0:
        sys.exit(
            f"claims report {' '.join(map(str, arguments))}: exit code {result.returncode}\n{result.stderr}"
        )
    return result


def synthetic_report(folder):
    """A report of the synthetic records below `folder`; gives its folder."""
    import evidence

    root = folder / "tree"
    evidence.build(root / "evidence")
    sentences = folder / "sentences.tsv"
    sentences.write_text("\n".join("\t".join(row) for row in evidence.SENTENCES) + "\n")
    report(
        "--evidence",
        root / "evidence",
        "--root",
        root,
        "--out",
        root / "build/report",
        "--sentences",
        sentences,
    )
    return root / "build/report"


use_python_with_packages()
