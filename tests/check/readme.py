# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The README's code, compiled and run as printed. A fenced block is a test if the line before it is
<!-- test: NAME -->        cpp: saved as NAME.cu, compiled; linked and run if it has a main
                           bash: run from the repository's root, after the blocks before it
<!-- test: NAME gpu -->    the same, where there is a GPU
<!-- test: none, WHY -->   not a test
Every cpp block must have such a line. Running a main needs a GPU; compiling needs none."""

import re
import sys

from support import SOURCE, fail_if, fresh, has_gpu, nvcc, repository_view, run, skip

BLOCK = re.compile(r"(?:^<!-- test: (?P<name>.*?) -->\n)?^```(?P<language>\w*)[^\n]*\n"
                   r"(?P<code>.*?)^```[ \t]*$", re.M | re.S)


def blocks(text):
    """Yields (line, name or '', language, code) of each fenced block."""
    for match in BLOCK.finditer(text):
        yield (text.count("\n", 0, match.start("language")) + 1, (match["name"] or "").strip(),
               match["language"], match["code"])


def problems(text, folder, gpu):
    root = repository_view(folder)
    found, tested = [], 0
    for line, name, language, code in blocks(text):
        if not name:
            if language in ("cpp", "cuda"):
                found.append(f"README.md:{line}: a {language} block without <!-- test: NAME --> on "
                             "the line before it")
            continue
        name, _, needs = name.partition(" ")
        if name.rstrip(",") == "none":
            continue
        tested += 1
        if language in ("cpp", "cuda"):
            source = root / f"{name}.cu"
            source.write_text(code)
            is_program = re.search(r"\bint main\(", code) is not None
            target = root / name if is_program else root / f"{name}.o"
            built = nvcc("-I", "include", *([] if is_program else ["-c"]), source, "-o", target,
                         check=False, cwd=root)
            if built.returncode != 0:
                found.append(f"README.md:{line}: {name} does not compile")
            elif is_program and gpu and run([target], check=False, cwd=root).returncode != 0:
                found.append(f"README.md:{line}: {name} fails when it is run")
            elif is_program and not gpu:
                print(f"{name}: built; not run: no GPU")
        elif language in ("bash", "sh"):
            if needs == "gpu" and not gpu:
                print(f"{name}: not run: no GPU")
                continue
            if run(["bash", "-euo", "pipefail", "-c", code], check=False,
                   cwd=root).returncode != 0:
                found.append(f"README.md:{line}: {name} fails when it is run")
        else:
            found.append(f"README.md:{line}: {name}: a test block is cpp or bash, "
                         f"not '{language}'")
    if tested == 0:
        found.append("README.md has no block marked <!-- test: NAME -->: nothing was tested")
    return found


GOOD = "<!-- test: ok -->\n```cpp\nint twice(int x) { return 2 * x; }\n```\n"
PLANTS = {
    "code that does not compile": GOOD + "<!-- test: bad -->\n```cpp\nint x = nothing;\n```\n",
    "a program that fails": "<!-- test: bad -->\n```cpp\nint main() { return 3; }\n```\n",
    "a command that fails": GOOD + "<!-- test: bad -->\n```bash\nfalse\n```\n",
    "an unmarked cpp block": GOOD + "\n```cpp\nint y;\n```\n",
    "no test at all": "words\n",
}


def self_test():
    missed = [f"false alarm: {problem}" for problem in problems(
        GOOD + "<!-- test: none, a fragment -->\n```cpp\n...\n```\n"
        "<!-- test: said -->\n```bash\ntest -e include && echo said\n```\n",
        fresh("readme_clean"), gpu=True)]
    for what, text in PLANTS.items():
        if not problems(text, fresh("readme_plant"), gpu=True):
            missed.append(f"not caught: {what}")
    fail_if(missed, f"{len(PLANTS)} planted faults, each caught; none in a clean text")


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
    elif not (SOURCE / "README.md").exists():
        skip("there is no README.md")
    else:
        fail_if(problems((SOURCE / "README.md").read_text(), fresh("readme"), has_gpu()),
                "the README's code compiles and runs as printed")
