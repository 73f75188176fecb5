# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""What a user pays: the shipped function of one op, instantiated for one dtype and compiled for one
architecture, in kernels and in compile time."""

import re
import resource
import sys

from support import SOURCE, fresh, nvcc, run, setting, shipped_call, skip

# What a user waits for is the time. rms_norm needs one kernel for each of 9 tuned column counts in two
# variants, a few more for row counts, and 8 for what is not tuned: 25 take 6.3 s here.
KERNELS = 28
SECONDS = 8.0
# Processor time, so that a busy machine does not count; a slow one may take this much more before
# the test fails. Between the two it warns.
SLACK = 2.0

op = sys.argv[1]
folder = fresh("budget_" + op)
source = folder / f"{op}.cu"
if not shipped_call(op):
    skip(f"capstone/{op}.cuh has no function capstone::{op}")
source.write_text(shipped_call(op))


def spent():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


start = spent()
nvcc("-O3", "-I", SOURCE / "include", "-c", source, "-o", folder / f"{op}.o")
seconds = spent() - start

nvcc("-I", SOURCE / "include", "-cubin", source, "-o", folder / f"{op}.cubin")
sections = run(["readelf", "-SW", folder / f"{op}.cubin"], quiet=True).stdout
kernels = len(set(re.findall(r"\s\.text\.(\S+)", sections)))

print(f"budget: {op}, bf16, sm_{setting('ARCH')}: {kernels} kernels of {KERNELS}, "
      f"{seconds:.1f} s of {SECONDS:.0f} s to compile")
if kernels == 0:
    sys.exit("no kernel was instantiated: this check would prove nothing")
if kernels > KERNELS:
    sys.exit(f"{op} instantiates {kernels} kernels, more than {KERNELS}: let the tuner merge more")
if seconds > SLACK * SECONDS:
    sys.exit(f"{op} takes {seconds:.1f} s to compile, more than {SLACK:.0f} times {SECONDS:.0f} s")
if seconds > SECONDS:
    print(f"warning: over the budget of {SECONDS:.0f} s")
