#!/usr/bin/env python3
# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Kernels that cheat, on a GPU: each must be refuted or invalid by the check that is named here, and the
honest one confirmed. Exit codes: 0 all caught, 1 not, 5 no GPU. `--keep DIR`: the records go there too."""

import argparse
import glob
import pathlib
import shutil
import subprocess
import sys

import yaml

READS, WRITES = (f"lts__t_sectors_srcunit_tex_op_{way}.sum" for way in ("read", "write"))
SPILLS = "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum"
SHAPE = "16384x4096"
# variant: (fails verify, claim in the profile, its verdict, what its reason or the story must say)
LIARS = {
    "writes_nothing": (True, WRITES, "REFUTED", "of the predicted value"),
    "spills": (False, SPILLS, "REFUTED", "spilled"),
    "reads_twice": (False, READS, "REFUTED", "read twice"),
    "low_precision": (True, "run", "INVALID", "the output is wrong"),
    "unfused": (False, "identity", "INVALID", "launched 2 kernels"),
    "library": (False, "identity", "INVALID", "the kernel is"),
    "other_stream": (False, "identity", "INVALID", "another stream"),
    "cached": (True, "identity", "INVALID", "launched 0 kernels"),
    "tunes": (False, "run", "INVALID", "differing numbers of kernels"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--keep", type=pathlib.Path)
    given = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    if shutil.which("nvidia-smi") is None or subprocess.run(["nvidia-smi", "-L"], capture_output=True).returncode != 0:
        print("liars: no GPU")
        return 5
    claims, out = given.build / "bin/claims", given.build / "liars"
    spec = next(given.build.glob("**/libliars.so"), None)
    if spec is None:
        print(f"--build is {given.build}; expected a build folder with libliars.so (target `liars`)")
        return 1
    shutil.rmtree(out, ignore_errors=True)
    ceilings = next((root / "evidence").glob("*/ceilings.yaml"))
    device = out / "evidence" / ceilings.parent.name
    device.mkdir(parents=True)
    shutil.copy(ceilings, device)

    def run(command, variants, *more):
        kernels = ",".join(f"liar.{v}" for v in variants)
        done = subprocess.run([claims, command, "--spec", spec, "--kernel", kernels, "--dtype", "bf16", "--shape", SHAPE,
                               "--out", out, *more], capture_output=True, text=True)
        print(f"$ claims {command} {kernels} {' '.join(more)}: exit {done.returncode}")
        return done

    everyone = ["honest", *LIARS]
    for variant in everyone:  # a liar may leave the GPU or the process unusable
        run("verify", [variant])
    predicted = run("predict", everyone)
    if predicted.returncode != 0:
        print(predicted.stdout, predicted.stderr)
        return 1
    for variants, more in ((["honest"], []), (LIARS, ["--unverified"])):
        done = run("profile", variants, *more)
        print(done.stdout[-4000:] if done.returncode not in (0, 3) else "", done.stderr[-2000:] if done.returncode == 1 else "")
    profiles = [yaml.safe_load(open(f)) for f in sorted(glob.glob(f"{device}/profiles/*.yaml"))]
    problems = {p["kernel"].removeprefix("liar."): p for record in profiles for p in record["problems"]}
    failures = []

    def verify_passed(variant):
        record = yaml.safe_load((device / f"verify/liar.{variant}.bf16.yaml").read_text())
        return all(p["passed"] for p in record["problems"])

    print(f"{'liar':16} {'verdict':12} caught by")
    honest = problems.get("honest")
    if honest is None or honest["verdict"] != "CONFIRMED" or not verify_passed("honest"):
        failures.append(f"honest is {honest and honest['verdict']}: {honest and honest['story']}")
    for variant, (fails_verify, claim, verdict, phrase) in LIARS.items():
        seen = problems.get(variant)
        if seen is None:
            failures.append(f"{variant} has no profile")
            continue
        named = [v for v in seen["verdicts"] if v["claim"] == claim and v["verdict"] == verdict]
        reasons = " ".join([seen["story"], *(v["why"] for v in seen["verdicts"])])
        caught = bool(named) and (phrase in reasons) and seen["verdict"] != "CONFIRMED" and verify_passed(variant) != fails_verify
        print(f"{variant:16} {seen['verdict']:12} {claim} {verdict}: {'; '.join(v['why'] for v in named) or '-'} | {seen['story']}"
              + (" | verify REFUTED" if not verify_passed(variant) else ""))
        if not caught:
            failures.append(f"{variant} is not caught by {claim} ({verdict}, '{phrase}'): {seen['verdict']}, {seen['story']}; verify "
                            f"{'passed' if verify_passed(variant) else 'failed'}; {[(v['claim'], v['verdict'], v['why']) for v in seen['verdicts'] if v['verdict'] != 'CONFIRMED']}")
    if given.keep:
        shutil.copytree(device, given.keep / device.name, dirs_exist_ok=True)
    for failure in failures:
        print(f"NOT AS IT MUST BE: {failure}")
    print(f"liars: {len(LIARS) + 1 - len(failures)} of {len(LIARS) + 1} as they must be")
    return 1 if failures else 0


sys.exit(main())
