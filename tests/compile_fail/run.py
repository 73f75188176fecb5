# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Code that must not compile, and the sentence that says why. The first line of a case is
// expect: <text that the compiler's message must contain>"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "check"))
from support import SOURCE, fail_if, fresh, nvcc  # noqa: E402


def problems(case):
    first = case.read_text().split("\n", 1)[0]
    expected = re.fullmatch(r"// expect: (.+)", first)
    if not expected:
        return [f"{case.name}: its first line is not '// expect: <text>'"]
    result = nvcc("-I", SOURCE / "include", "-c", case, "-o", "/dev/null", check=False)
    if result.returncode == 0:
        return [f"{case.name}: it compiles"]
    if expected[1] not in result.stdout:
        return [f"{case.name}: it fails, but not with '{expected[1]}'"]
    return []


def self_test():
    folder = fresh("compile_fail")
    faulty = 'static_assert(sizeof(int) == 1, "an int is one byte");\n'
    cases = {
        "good": ("// expect: an int is one byte\n" + faulty, False),
        "compiles": ("// expect: an int is one byte\n", True),
        "fails_otherwise": ("// expect: an int is two bytes\n" + faulty, True),
        "expects_nothing": (faulty, True),
    }
    missed = []
    for name, (text, is_faulty) in cases.items():
        case = folder / f"{name}.cu"
        case.write_text(text)
        if bool(problems(case)) != is_faulty:
            missed.append(f"{name}: {'not caught' if is_faulty else 'false alarm'}")
    fail_if(missed, "3 faulty cases, each caught; no alarm on a good one")


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        fail_if(problems(pathlib.Path(sys.argv[1])), "refused, with the expected sentence")
