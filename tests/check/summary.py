# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""What a run of ctest skipped and why, what it only built, and what the kernels cost to compile."""

import re
import sys
import xml.etree.ElementTree as xml

skipped, built_only, budgets, count = {}, [], [], 0
for case in xml.parse(sys.argv[1]).getroot().iter("testcase"):
    count += 1
    name = case.get("name")
    output = case.findtext("system-out") or ""
    if case.find("skipped") is not None:
        reason = re.search(r"^skipped: (.+)$", output, re.M)
        skipped.setdefault(reason[1] if reason else "it gave no reason", []).append(name)
    elif re.search(r"not run: no GPU", output):
        built_only.append(name)
    budgets += re.findall(r"^(?:budget|warning): .+$", output, re.M)

if built_only:
    print(f"{len(built_only)} of {count} tests built a program and, without a GPU, did not run it:")
    print("".join(f"    {name}\n" for name in built_only), end="")
print(f"{sum(map(len, skipped.values()))} of {count} tests were skipped{':' if skipped else '.'}")
for reason, names in skipped.items():
    print(f"  {len(names)} because: {reason}")
    print("".join(f"    {name}\n" for name in names), end="")
print("".join(f"{line}\n" for line in budgets), end="")
