# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""tools/race without a GPU: a race of made-up arms on a simulated GPU whose every time is known, its record read
by `claims table`, peers that are wrong, foreign, absent or crash, and that tools/race.cu compiles."""

import sys

sys.path.append(sys.path.pop(0))  # inspect.py beside this file is not the one that unittest means

import csv
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import unittest

from support import SOURCE, fresh, nvcc

SCRIPT = SOURCE / "tools/race"
loader = importlib.machinery.SourceFileLoader("race", str(SCRIPT))
race = importlib.util.module_from_spec(importlib.util.spec_from_loader("race", loader))
sys.modules["race"] = race  # dataclasses look there
loader.exec_module(race)
session, peers = race.session, race.peers

L2 = 60 << 20
BYTES = 134_000_000
NODE = 1.0  # microseconds
TIMES = {"capstone": 33.0, "capstone A/A twin": 33.0, "Liger": 36.0, "quack": 32.0, "u4 t256": 32.5, "u1 t256": 35.0}


class Gpu:
    """Time is what the arms' calls take, with a ripple that differs from round to round; `log` has every call."""

    def __init__(self, times=TIMES):
        self.us, self.times, self.log, self.evictions, self.samples = 0.0, times, [], 0, []
        self.counters, self.captured = {"kernels": 0}, None

    def arm(self, name, **more):
        def run(which):
            if self.captured is not None:
                self.captured.append(name)
            self.log.append((name, which))
            self.us += self.times[name]
        return session.Arm(name, run, **more)

    def now(self):
        return self.us / 1e6

    def synchronize(self):
        pass

    def capture(self, calls):
        names = [arm.name for arm, _ in calls]

        def replay():
            for arm, which in calls:
                self.us += self.times[arm.name] * (1 + len(self.samples) % 7 * 1e-4)
                self.log.append((arm.name, which))
        replay.names = names
        return replay

    def timed_us(self, work):
        begin = self.us
        work()
        self.samples.append(work.names)
        return self.us - begin

    def evict(self):
        self.evictions += 1

    def state(self):
        return 1980, 400.0

    def compiled(self):
        return dict(self.counters)


def arms_on(gpu, others=("Liger", "quack")):
    kernels = {"kernels": ("a_kernel",)}
    return [gpu.arm("capstone", version="this repository", **kernels),
            gpu.arm("capstone A/A twin", version="this repository", **kernels),
            *(gpu.arm(name, version="1.0", do_bench_ms=0.05, **kernels) for name in others),
            gpu.arm("u4 t256", is_floor=True), gpu.arm("u1 t256", is_floor=True)]


def options(**more):
    return session.Options(**{"sets": 3, "bytes_per_call": BYTES, "l2_bytes": L2, "rounds": 12, **more})


def entry_of(gpu, absent=(), others=("Liger", "quack"), shape="rows=4096,cols=4096"):
    arms = arms_on(gpu, others)
    what = {"kernel": "rms_norm", "dtype": "bf16", "rounding": "float32 throughout", "shape": shape,
            "match": "exact", "fallback": False, "config": {"lanes": 256, "hold": "packed"}, "bytes": BYTES,
            "other_processes": 0, "suite": "llm"}
    return session.comparison(what, arms, session.time_arms(gpu, arms, options()), 1, list(absent))


def record_of(*entries):
    about = {"session": "20260102T030405Z-00c0ffee", "date": "2026-01-02T03:04:05Z", "commit": "abc",
             "dirty": False, "binary": "sha256:1", "toolchain": {"cuda": "13.0.88", "flags": "-O3"},
             "device": {"id": "h200", "name": "NVIDIA H200", "cc": "9.0", "sms": 132, "l2_bytes": 62914560,
                        "driver": "580.1"}}
    return session.session_text(about, 1, list(entries))


def claims_table(name, text, *more):
    folder = fresh("race " + name) / "evidence"
    (folder / "h200/sessions").mkdir(parents=True)
    (folder / "h200/sessions/s.yaml").write_text(text)
    return subprocess.run([os.environ["CAPSTONE_CLAIMS"], "table", "--evidence", str(folder), *more],
                          capture_output=True, text=True)


class Fake(peers.Peer):
    """A pure Python rms_norm of one row."""
    name, kernels, x = "fake", "fake_kernel", [3.0, -4.0, 0.5, 2.0]

    def __init__(self, scale=1.0, ran=("fake_kernel<8>",)):
        self.scale, self.ran = scale, list(ran)

    def version(self):
        return "fake 1.0"

    def judged(self):
        rms = (sum(v * v for v in self.x) / len(self.x)) ** 0.5
        want = [v / rms for v in self.x]
        bound = 5 * race.ROUNDOFF["bf16"]
        ratio = max(abs(self.scale * w - w) / (bound * abs(w)) for w in want)
        return peers.judge(self, lambda: {"y": ratio}, lambda: self.ran)


class Timing(unittest.TestCase):
    def test_every_round_runs_every_arm_once_in_an_order_of_its_own(self):
        gpu = Gpu()
        arms = arms_on(gpu)
        timed = session.time_arms(gpu, arms, options())
        rounds = [[names[0] for names in gpu.samples[-12 * len(arms):]][i * len(arms):(i + 1) * len(arms)]
                  for i in range(12)]
        for one in rounds:
            self.assertEqual(sorted(one), sorted(a.name for a in arms))
        self.assertGreater(len({tuple(one) for one in rounds}), 6)
        self.assertEqual([len(us) for us in timed.us], [12] * len(arms))

    def test_a_graph_rotates_over_all_sets_and_each_arms_first_calls_come_before_all_timing(self):
        gpu = Gpu()
        arms = arms_on(gpu)
        timed = session.time_arms(gpu, arms, options())
        self.assertEqual(gpu.log[:3 * len(arms)], [(a.name, i) for a in arms for i in range(3)])
        self.assertEqual(timed.calls % 3, 0)
        self.assertEqual([which for _, which in gpu.log[-timed.calls:]], [i % 3 for i in range(timed.calls)])

    def test_too_few_sets_are_kept_cold_by_evicting_l2_and_no_set_is_used_twice(self):
        gpu = Gpu({name: 2.0 for name in TIMES})
        timed = session.time_arms(gpu, arms_on(gpu), options(sets=16, bytes_per_call=24576))
        self.assertTrue(timed.flushed)
        self.assertEqual(timed.calls, 16)
        self.assertEqual(gpu.evictions, 12 * len(TIMES))

    def test_the_time_of_an_arm_is_its_own(self):
        gpu = Gpu()
        timed = session.time_arms(gpu, arms_on(gpu), options())
        for arm, us in zip(arms_on(gpu), timed.us):
            self.assertAlmostEqual(session.median(us) / TIMES[arm.name], 1, delta=1e-3)

    def test_a_compilation_while_it_is_timed_voids_the_race_and_is_named(self):
        gpu = Gpu()
        replayed = gpu.evict

        def compiles():
            gpu.counters["kernels"] += gpu.evictions == 30
            replayed()
        gpu.evict = compiles
        with self.assertRaisesRegex(session.Void, "while it was timed: kernels went from 0 to 1"):
            session.time_arms(gpu, arms_on(gpu), options(sets=2, bytes_per_call=1000))

    def test_a_compilation_before_is_none_of_the_timing(self):
        gpu = Gpu()
        arms = arms_on(gpu)
        first = arms[2].run

        def compiles(which):
            gpu.counters["kernels"] = 1
            first(which)
        arms[2].run = compiles
        session.time_arms(gpu, arms, options())

    def test_the_interval_of_a_median_is_that_of_the_tools(self):
        # Pinned in tests/cpu/test_stats.cpp, too.
        low, high = session.bootstrap_median([1, 2, 3, 4, 5, 6, 7, 8], 1, 10)
        self.assertAlmostEqual(low, 2.725)
        self.assertAlmostEqual(high, 5.8875)


class Peers(unittest.TestCase):
    def test_one_that_is_right_is_raced(self):
        found = Fake().judged()
        self.assertEqual((found["ran"], found["reason"], found["version"]), (True, "", "fake 1.0"))

    def test_a_wrong_result_is_not_raced_and_says_by_how_much(self):
        found = Fake(scale=1.05).judged()
        self.assertFalse(found["ran"])
        self.assertRegex(found["reason"], r"fake: y is off by 2\.56 times what five roundings allow")
        arms, absent = peers.line_up({"fake": found}, lambda *_: self.fail("it was raced"))
        self.assertEqual((arms, absent[0]["name"]), ([], "fake"))

    def test_a_result_that_is_no_number_is_wrong(self):
        self.assertFalse(Fake(scale=float("nan")).judged()["ran"])

    def test_another_librarys_kernel_is_named_and_not_raced(self):
        found = Fake(ran=["at::native::vectorized_layer_norm_kernel"]).judged()
        self.assertFalse(found["ran"])
        self.assertRegex(found["reason"], "kernels of another library: at::native::vectorized_layer_norm_kernel")
        self.assertRegex(Fake(ran=[]).judged()["reason"], "launched no kernel")

    def test_an_absent_one_gives_its_reason(self):
        fake = Fake()
        fake.version = lambda: __import__("no_such_library")
        self.assertEqual(fake.judged()["reason"], "ModuleNotFoundError: No module named 'no_such_library'")

    def test_one_that_fails_in_the_race_alone_is_absent_and_the_others_are_raced(self):
        def make(name, _):
            if name == "b":
                raise RuntimeError("out of shared memory\nmore")
            return name
        found = {"ran": True, "version": "1", "kernels": ["k"], "reason": ""}
        arms, absent = peers.line_up({"a": found, "b": found, "c": found}, make)
        self.assertEqual(arms, ["a", "c"])
        self.assertEqual(absent[0]["reason"], "in the race: RuntimeError: out of shared memory")

    def test_a_probe_that_crashes_gives_a_reason_for_all_it_did_not_come_to(self):
        code = ("import json, os, sys; print('probe ' + json.dumps(dict(ran=True, version='1', kernels=['k'], "
                "reason=''))); sys.stdout.flush(); print('segmentation', file=sys.stderr, flush=True); os.abort()")
        problems = [race.Problem("rms_norm", "bf16", 1, n) for n in (8, 16, 32)]
        found = race.probe_apart("x", problems, [sys.executable, "-c", code])
        self.assertEqual([f["ran"] for f in found], [True, False, False])
        self.assertRegex(found[1]["reason"], "ended with code -6 before this problem: segmentation")

    def test_every_peer_says_what_it_is_and_knows_its_own_kernels(self):
        names = [p.name for p in race.ALL]
        self.assertEqual(len(set(names)), len(names))
        for peer in race.ALL:
            self.assertTrue(peer.kernels, peer.name)
            self.assertFalse(peers.re.search(peer.kernels, "some_other_kernel<float>"), peer.name)


class Record(unittest.TestCase):
    ABSENT = {"name": "Apex", "version": "unknown version", "reason": "No module named 'apex'"}

    def test_claims_table_reads_it_and_counts_losses_first(self):
        text = record_of(entry_of(Gpu(), [self.ABSENT]))
        printed = claims_table("table", text, "--markdown")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        rows = [line for line in printed.stdout.splitlines() if line.startswith("| llm")]
        self.assertRegex(rows[0], r"^\| llm \| quack \| \*\*1\*\* \| 0 \| 0 \| 0\.970 \| rows=4096,cols=4096 \|$")
        self.assertRegex("\n".join(rows), r"\| llm \| Liger \| 0 \| 0 \| 1 \| 1\.091 \|")
        self.assertRegex("\n".join(rows), r"\| llm \| floor \| 0 \| 0 \| 1 \| 0\.985 \|")
        self.assertIn("- Apex (rms_norm bf16 rows=4096,cols=4096): No module named 'apex'", printed.stdout)

    def test_every_absent_peer_is_a_row_with_its_reason(self):
        printed = claims_table("tsv", record_of(entry_of(Gpu(), [self.ABSENT])))
        rows = [r for r in csv.DictReader(io.StringIO(printed.stdout), delimiter="\t") if r["claim"] == "not raced"]
        self.assertEqual([(r["baseline"], r["value"]) for r in rows], [("Apex", "No module named 'apex'")])

    def test_claims_table_refuses_what_does_not_hold_together(self):
        text = record_of(entry_of(Gpu(), [self.ABSENT]))
        for old, new in ((', kernels: ["a_kernel"]', ""), ('"No module named \'apex\'"', '""'),
                         ('name: "Apex"', 'name: "Liger"'), ("void: false", "void: true"), ("voids: 0", "voids: 1"),
                         ('suite: "llm"', 'suite: "llm"\n    sweet: "llm"')):
            self.assertIn(old, text)
            printed = claims_table("refused", text.replace(old, new, 1))
            self.assertNotEqual(printed.returncode, 0, f"{old} -> {new}")

    def test_a_twin_that_strays_is_void_in_the_record(self):
        entry = entry_of(Gpu({**TIMES, "capstone A/A twin": 33.5}))
        self.assertTrue(entry["void"])
        printed = claims_table("void", record_of(entry))
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertIn("INVALID", printed.stdout)


class Tool(unittest.TestCase):
    def test_wrong_usage_names_the_argument_and_ends_with_2(self):
        for words, sentence in ((["--shape", "3"], "shape is '3'; expected one like"),
                                (["--suite", "tall"], "suite is 'tall'; expected one of llm"),
                                (["--peers", "Nobody"], "peers is 'Nobody'; expected one of"),
                                (["--rounds", "1"], "rounds is 1; expected 2 or more")):
            ended = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)
            self.assertEqual(ended.returncode, 2)
            self.assertIn(sentence, ended.stderr)

    def test_its_suites_are_those_of_the_spec(self):
        spec = (SOURCE / "specs/rms_norm.cu").read_text()
        for suite, shapes in race.SUITES.items():
            line = ", ".join("{%s}" % s.replace("x", ", ") for s in shapes.split(","))
            self.assertIn(f'{{"{suite}", shapes({{{line}}})}}', spec)

    def test_what_it_compiles_compiles(self):
        nvcc("-O0", "-I", SOURCE, "-I", SOURCE / "include", "-c", SOURCE / "tools/race.cu", "-o",
             fresh("race compiles") / "race.o", quiet=True)
        nvcc("-ptx", "-I", SOURCE / "include", "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__",
             "-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__",  # as PyTorch compiles it
             "-c", SOURCE / "examples/pytorch/rms_norm/kernels.cu", "-o", fresh("race extension") / "k.ptx", quiet=True)


if __name__ == "__main__":
    unittest.main()
