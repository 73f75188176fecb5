# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments, then `autotune --resume`: the same files, and nothing finished is done
again. kill -9 for the worker alone: the run goes on, to the same files, and blames no candidate. Real
candidates in real workers on the host device, with simulated times, so that two runs can agree to the byte.
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import support

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--trials", type=int, default=20, help="of runs cut short; a third as many lose their workers")
parser.add_argument("--seed", type=int, default=time.time_ns() % 1000000)
given = parser.parse_args()
TRIALS, SEED = given.trials, given.seed
AUTOTUNE = pathlib.Path(support.setting("BUILD")) / "bin/autotune"
WHAT = ["--kernel", "rms_norm", "--dtype", "f32", "--shape", "3x64,40x64,5x96", "--device", "host", "--simulate"]
WHAT += ["--max-candidates", "2", "--jobs", "2"]


def expect(good, sentence):
    if not good:
        sys.exit(f"failed (seed {SEED}): {sentence}")


def start(out, *more):
    return subprocess.Popen(
        [AUTOTUNE, *WHAT, "--out", out, *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def files(out):
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted(out.rglob("*"))
        if p.is_file() and ".autotune" not in p.parts and p.name != ".lock"
    }


def keys(out):
    """The keys of all whole lines but those that sum a group up, in order."""
    found = []
    for path in sorted((out / ".autotune").glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            entry = json.loads(line)
            if "key" in entry and entry["phase"] != "group":
                found.append(entry["key"])
    return found


def leftovers(out):
    """Processes that still work below `out` or are workers of a run that is gone."""
    return [
        " ".join(words)
        for _, parent, words in support.processes()
        if str(out) in " ".join(words) or ("worker" in words and "simulated" in words and parent == 1)
    ]


def without_workers(out, span, expected, all_keys):
    """One run whose worker is killed up to three times. Returns how often."""
    run, kills = start(out), 0
    for _ in range(3):
        time.sleep(random.uniform(0, span / 3))
        kills += support.kill_worker_of(run)
    text, _ = run.communicate()
    expect(run.returncode == 0, f"a run whose worker was killed ended with {run.returncode}: {text}")
    expect(files(out) == expected, f"{kills} killed workers left other files: {text}")
    expect(keys(out) == all_keys, f"{kills} killed workers left other steps: {text}")
    return kills


def main():
    random.seed(SEED)
    print(f"{TRIALS} trials, seed {SEED}")
    with tempfile.TemporaryDirectory(prefix="capstone-resume-") as folder:
        folder = pathlib.Path(folder)
        begin = time.monotonic()
        whole = start(folder / "whole")
        text, _ = whole.communicate()
        span = time.monotonic() - begin
        expect(whole.returncode == 0, f"the whole run ended with {whole.returncode}: {text}")
        expected, all_keys = files(folder / "whole"), keys(folder / "whole")
        expect(len(expected) == 2 and len(all_keys) > 10, f"the whole run left {list(expected)}")
        expect(len(set(all_keys)) == len(all_keys), "the whole run did something twice")
        lost = sum(without_workers(folder / f"lost-{i}", span, expected, all_keys) for i in range((TRIALS + 2) // 3))
        expect(lost > 0, "no worker was killed")
        cut_short = 0
        for trial in range(TRIALS):
            out = folder / f"trial-{trial}"
            kills = 0
            while True:
                run = start(out, *(["--resume"] if kills else []))
                # Half of the trials are killed again and again, with less time each.
                deadline = random.uniform(0, span) if kills == 0 or trial % 2 == 1 and kills < 3 else 600
                soft = trial % 5 == 4
                try:
                    text, _ = run.communicate(timeout=deadline)
                    break
                except subprocess.TimeoutExpired:
                    run.send_signal(signal.SIGTERM if soft else signal.SIGKILL)
                    text, _ = run.communicate()
                    expect(
                        run.returncode in ((0, 4) if soft else (-9,)), f"a signal left {run.returncode}: {text}"
                    )
                    if run.returncode == 0:
                        break
                    kills += 1
            cut_short += kills
            expect(run.returncode == 0, f"trial {trial} ended with {run.returncode}: {text}")
            found = keys(out)
            expect(sorted(found) == sorted(all_keys), f"trial {trial}: {len(found)} steps, expected {len(all_keys)}")
            expect(len(set(found)) == len(found), f"trial {trial}: something finished was done again")
            for path, data in files(out).items():
                expect(expected.get(path) == data, f"trial {trial}: {path} differs")
            expect(set(files(out)) == set(expected), f"trial {trial}: other files")
        expect(cut_short > 0, "no run was cut short")
        left = leftovers(folder)
        expect(not left, f"still running: {left}")
        print(f"{lost} workers killed, {cut_short} runs cut short, {len(all_keys)} steps each, always the same files")


if __name__ == "__main__":
    main()
