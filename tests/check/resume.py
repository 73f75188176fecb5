# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random moments, then `autotune --resume`: the same files, and nothing finished is done
again. Real candidates in real workers on the host device, with simulated times, so that two runs can
agree to the byte. `resume.py [TRIALS] [SEED]`
"""

import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import support

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 1000000
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
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) if words else 0
        except (OSError, IndexError, ValueError):
            continue
        if str(out).encode() in b" ".join(words) or (b"worker" in words and b"simulated" in words and parent == 1):
            found.append(b" ".join(words).decode())
    return found


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
        print(f"{cut_short} runs cut short, {len(all_keys)} steps each, always the same files")


if __name__ == "__main__":
    main()
