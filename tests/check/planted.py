# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Candidates that are broken in every way (tests/planted): `autotune` finishes, calls each what it is,
and freezes a right one, though its worker is killed from outside twice. `planted.py host` or `planted.py
gpu`; exit code 77 where there is no GPU."""

import json
import pathlib
import re
import subprocess
import sys
import time

import support

# fault: what becomes of it on a GPU and on the host, where some cannot be had: None
LABELS = {
    "none": ("ok", "ok"),
    "slow": ("ok", "ok"),
    "wrong_tail": ("wrong", "wrong"),
    "partial_write": ("wrong", "wrong"),
    "accumulates": ("wrong", "wrong"),
    "past_the_end": ("wrong", "wrong"),
    "out_of_bounds": ("crash", "crash"),
    "misaligned": ("crash", None),
    "trap": ("crash", "crash"),
    "endless": ("timeout", "timeout"),
    "too_fast": ("implausible", "wrong"),  # no bandwidth is known of the host
    "tires": ("implausible", "wrong"),
    "too_much_shared_memory": ("launch_error", None),
    "does_not_compile": ("compile_error", "compile_error"),
    "racy": ("nondeterministic", "nondeterministic"),
    "spills": ("spilled", None),
    "crashes_when_timed": ("crash", "crash"),
    "endless_when_timed": ("timeout", "timeout"),
}
# What the journal must say of some, on a GPU: the reason is as much of the label as its word.
REASONS = {
    "out_of_bounds": "cudaErrorIllegalAddress",
    "misaligned": "cudaErrorMisalignedAddress",
    "crashes_when_timed": "cudaErrorIllegalAddress",
    "too_much_shared_memory": "dynamic shared memory",
    "past_the_end": "was overwritten",
    "partial_write": "was not written",
}
SETTINGS = {  # shape, candidate timeout, the most seconds
    "gpu": ("16384x4096", "5s", 240),
    "host": ("96x1000", "3s", 120),
}
KILLS = 2


def tune(kind, out):
    """Runs autotune and kills its worker while it waits for the compiler, and again between two checks.
    Returns the exit code, the journal's lines, what was printed beside them, and the seconds."""
    shape, timeout, _ = SETTINGS[kind]
    build = pathlib.Path(support.setting("BUILD"))
    command = [build / "bin/autotune", "--spec", build / "tests/libplanted.so", "--kernel", "planted", "--dtype", "f32"]
    command += ["--shape", shape, "--device", "host" if kind == "host" else "0", "--max-candidates", "0"]
    command += ["--candidate-timeout", timeout, "--out", out, "--json"]
    print("$", *command, flush=True)
    begin = time.monotonic()
    with open(out / "printed.txt", "w") as printed:
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=printed, text=True)
    while run.poll() is None and "kernels to compile" not in (out / "printed.txt").read_text():
        time.sleep(0.02)
    support.kill_worker_of(run)
    lines, gated = [], 0
    for line in run.stdout:
        lines.append(json.loads(line))
        gated += lines[-1].get("phase") == "gate"
        if gated == KILLS and lines[-1].get("phase") == "gate":
            support.kill_worker_of(run)
    return run.wait(), lines, (out / "printed.txt").read_text(), time.monotonic() - begin


def main():
    kind = sys.argv[1]
    on_host = kind == "host"
    if not on_host and not support.has_gpu():
        support.skip("no GPU")
    out = support.fresh("planted_" + kind)
    code, lines, printed, seconds = tune(kind, out)
    print(printed)
    problems = []

    def expect(good, sentence):
        if not good:
            problems.append(sentence)

    if code != 0:
        sys.exit(f"failed: autotune ended with {code}; expected 0")
    most = SETTINGS[kind][2]
    expect(seconds < most, f"it took {seconds:.0f} s; expected {most} s at most")

    found = {}  # (fault, tile_rows): the last word and its reason
    for line in lines:
        if "config" not in line:
            continue
        one = (line["config"]["fault"], line["config"]["tile_rows"])
        if one in found and found[one][0] != "ok":
            problems.append(f"{one} was {found[one][0]} and was tried again: {line}")
        found[one] = (line["state"], line.get("why", ""))
    for fault, words in LABELS.items():
        expected = words[on_host]
        of_it = [each for (name, _), each in found.items() if name == fault]
        print(f"{fault:24} {', '.join(state for state, _ in of_it) or 'pruned':18} {of_it[0][1].splitlines()[0][:100] if of_it and of_it[0][1] else ''}")
        count = 0 if expected is None else 2 if fault == "none" else 1
        expect(len(of_it) == count, f"{fault}: {len(of_it)} candidates; expected {count}")
        for state, why in of_it:
            expect(state == expected, f"{fault} is {state} ({why}); expected {expected}")
            if not on_host and fault in REASONS:
                expect(REASONS[fault] in why, f"{fault}: {why}; expected it to say '{REASONS[fault]}'")

    files = list((out / "configs").glob("*/planted.f32.yaml"))
    expect(len(files) == 1, f"{len(files)} config files; expected 1")
    for path in files:
        winners = set(re.findall(r'schedule: \{.*fault: "(\w+)"', path.read_text()))
        expect(winners == {"none"}, f"frozen are {winners}; expected fault none")

    # One worker for each crash and deadline of the gate, one for each kill, and in the timing one for
    # each half, quarter and eighth of the batch that held one of the two bad ones.
    gate = sum(words[on_host] in ("crash", "timeout") for words in LABELS.values()) - 2
    replaced = int(printed.split(" workers were replaced")[0].split()[-1])
    least, most = gate + KILLS + 2, gate + KILLS + 7
    expect(least <= replaced <= most, f"{replaced} workers were replaced; expected {least} to {most}")
    support.fail_if(problems, f"all {len(found)} candidates are what they are, in {seconds:.0f} s with {replaced} workers replaced")


if __name__ == "__main__":
    main()
