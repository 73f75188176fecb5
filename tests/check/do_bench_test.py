# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""tools/do_bench without a GPU: its conclusions on made-up numbers, its measuring on a simulated GPU whose
every time is known, with faults planted, and that tools/do_bench.cu compiles."""

import sys

sys.path.append(sys.path.pop(0))  # inspect.py beside this file is not the one that unittest means

import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import subprocess
import types
import unittest
from unittest import mock

from support import SOURCE, fresh, has_gpu, nvcc

SCRIPT = SOURCE / "tools/do_bench"
loader = importlib.machinery.SourceFileLoader("do_bench", str(SCRIPT))
do_bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("do_bench", loader))
loader.exec_module(do_bench)
report = do_bench.report

TABLE = "\t".join(("device", "kernel", "dtype", "shape", "rows", "cols", "claim", "verdict", "value", "unit",
                   "low", "high", "baseline", "session", "record")) + "\n"
LAUNCH, NODE, L2 = 3.0, 1.0, 60 << 20  # microseconds, microseconds, bytes
RATE = 4000.0                          # bytes a microsecond, of the simulated memory
L2_RATE = 8000.0


def row(kernel, shape, ms, session, baseline="capstone", verdict="-", unit="ms"):
    return "\t".join(map(str, ("h200", kernel, "bf16", shape, "-", "-", "time", verdict, ms, unit, ms, ms,
                               baseline, session, "sessions/s.yaml"))) + "\n"


class Gpu:
    """A GPU whose kernels take a launch and their bytes over a rate; what is read again comes from L2;
    evicting what was written takes its bytes once more. Stands in for torch, triton.testing, the library."""

    def __init__(self, unit=1e-3):
        self.now, self.unit, self.captured = 0.0, unit, None
        self.resident, self.dirty = None, 0
        gpu = self

        class Event:
            def __init__(self, enable_timing):
                self.at = None

            def record(self):
                self.at = gpu.now

            def elapsed_time(self, end):
                return (end.at - self.at) / 1000

        class Graph:
            def replay(self):
                for work in self.work:
                    gpu.now += NODE + work()

        @contextlib.contextmanager
        def capture(graph):
            gpu.captured = graph.work = []
            yield
            gpu.captured = None

        class Tensor:
            def __init__(self, *_, **__):
                gpu.tensors = getattr(gpu, "tensors", 0) + 1
                self.at = gpu.tensors

            def data_ptr(self):
                return self.at

            def zero_(self):
                gpu.now += LAUNCH
                gpu.resident, gpu.dirty = None, L2

        self.cuda = types.SimpleNamespace(
            Event=Event, CUDAGraph=Graph, graph=capture, synchronize=lambda: None, empty_cache=lambda: None,
            current_stream=lambda: types.SimpleNamespace(cuda_stream=0),
            mem_get_info=lambda: (1 << 37, 1 << 37),
            get_device_properties=lambda _: types.SimpleNamespace(L2_cache_size=L2),
            get_device_capability=lambda: (9, 0), get_device_name=lambda: "NVIDIA Simulated")
        self.zeros = self.empty = self.randn = self.empty_like = Tensor
        self.int8 = self.bfloat16 = None

    def launch(self, work):
        if self.captured is not None:
            self.captured.append(work)
        else:
            self.now += LAUNCH + work()

    def moved(self, what, size):
        """Microseconds for a kernel's bytes; `what` tells data apart."""
        if self.resident == what and size <= L2 // 2:
            return size / L2_RATE
        written_back = min(self.dirty, size)
        self.resident, self.dirty = what, self.dirty - written_back
        return (size + written_back) / RATE

    # ---- the library
    def empty_kernel(self, stream):
        self.launch(lambda: 0.0)

    def spin(self, ns, stream):
        self.launch(lambda: ns / 1000)

    def read(self, at, size, stream):
        def work():
            self.resident, self.dirty = None, 0
            return size / RATE
        self.launch(work)

    def copy(self, source, target, size, stream):
        self.launch(lambda: self.moved(source, 2 * size))

    def rms_norm(self, x, residual, weight, y, residual_out, rows, cols, eps, stream):
        size = rows * cols * 2 * (2 if residual is None else 4) + cols * 2
        self.launch(lambda: self.moved(x, size))

    def library(self):
        return types.SimpleNamespace(empty=self.empty_kernel, spin=self.spin, read=self.read,
                                     copy=self.copy, rms_norm=self.rms_norm)

    # ---- triton.testing; `unit`: of what it returns, in a microsecond
    def testing(self):
        def timed(fn, warmup, rep, quantiles):
            fn()
            self.resident, self.dirty = None, L2
            begin = self.now
            fn()
            return [(self.now - begin) * self.unit] * len(quantiles)

        def graph(fn, rep, quantiles):
            fn()
            self.captured = calls = []
            for _ in range(50):
                fn()
            self.captured = None
            begin = self.now
            for call in calls:
                self.now += NODE + call()
            return [(self.now - begin) / len(calls) * self.unit] * len(quantiles)
        return types.SimpleNamespace(do_bench=timed, do_bench_cudagraph=graph)


class Conclusions(unittest.TestCase):
    def test_a_spin_of_known_length_confirms_the_unit(self):
        self.assertAlmostEqual(report.unit_ratio(1.0035, 0.0030, 1_000_000, "do_bench"), 1.0005)
        self.assertAlmostEqual(report.unit_ratio(0.1034, 0.0030, 100_000, "do_bench"), 1.004)

    def test_another_unit_is_refused_and_named(self):
        for factor, name in ((1e-3, "seconds"), (1e3, "microseconds"), (1e6, "nanoseconds")):
            with self.assertRaisesRegex(report.Refused, f"expected milliseconds.*looks like {name}"):
                report.unit_ratio(1.003 * factor, 0.003 * factor, 1_000_000, "do_bench")

    def test_milliseconds_off_by_more_than_the_tolerance_are_refused_without_a_guess(self):
        for measured in (0.977, 1.023):
            with self.assertRaises(report.Refused) as caught:
                report.unit_ratio(measured, 0, 1_000_000, "do_bench")
            self.assertNotIn("looks like", str(caught.exception))
        report.unit_ratio(1.019, 0, 1_000_000, "do_bench")

    def test_quantiles_and_single_times(self):
        self.assertEqual(report.median_of_three([2.0, 1.0, 3.0], "do_bench"), (2.0, 1.0, 3.0))
        self.assertEqual(report.median_of_three(2.0, "do_bench"), (2.0, 2.0, 2.0))
        for bad in ([1.0, 2.0], float("nan"), -1.0):
            with self.assertRaises(report.Refused):
                report.median_of_three(bad, "do_bench")

    def test_our_times_are_those_of_the_session_alone(self):
        one, two = ("rms_norm", "rows=1,cols=4096"), ("rms_norm", "rows=2,cols=4096")
        text = (TABLE + row(*one, 9.0, "old") + row(*one, 0.002, "new")
                + row(*one, 8.0, "new", baseline="textbook") + row(*two, 0.003, "new", verdict="INVALID"))
        found = report.our_times(text, "new")
        self.assertEqual(found, {one: {"us": 2.0, "low": 2.0, "high": 2.0, "void": False},
                                 two: {"us": 3.0, "low": 3.0, "high": 3.0, "void": True}})
        with self.assertRaisesRegex(report.Refused, "no time of session 'none'"):
            report.our_times(text, "none")
        with self.assertRaisesRegex(report.Refused, "in 'us'; expected ms"):
            report.our_times(TABLE + row(*one, 2, "new", unit="us"), "new")

    def measured(self, **changed):
        m = dict(first_us=100.0, second_us=102.0, do_bench_us=117.0, cudagraph_us=60.0,
                 copy_us=118.0, copy_cold_us=102.0, cold_us=101.0, hot_us=60.0)
        return {check["what"]: check for check in report.explain({**m, **changed})}

    def test_what_adds_up_is_explained(self):
        checks = self.measured()
        self.assertEqual([c["within"] for c in checks.values()], [True] * 4)
        self.assertAlmostEqual(checks["do_bench"]["expected_us"], 101 + 16)
        self.assertIn("within", checks["do_bench"]["sentence"])

    def test_what_does_not_add_up_is_not(self):
        for name, changed in (("do_bench", {"do_bench_us": 130.0}),
                              ("do_bench_cudagraph", {"cudagraph_us": 64.0}),
                              ("torch graph, cold", {"cold_us": 92.0}),
                              ("claims bench again", {"second_us": 110.0})):
            check = self.measured(**changed)[name]
            self.assertFalse(check["within"], name)
            self.assertIn("NOT within", check["sentence"])

    def test_events_resolve_no_less_than_half_a_microsecond(self):
        self.assertTrue(report.compared("x", 2.4, [("y", 2.0)])["within"])
        self.assertFalse(report.compared("x", 2.6, [("y", 2.0)])["within"])


class Records(unittest.TestCase):
    def test_numbers_are_spelt_as_the_other_records_spell_them(self):
        for value, text in ((41.87, "41.87"), (1.0, "1"), (0.0, "0"), (-0.0, "0"), (0.0021721, "0.002172"),
                            (1e-5, "1.0e-05"), (0.12345678, "0.1235"), (1234.56789, "1234.5679"),
                            (7, "7")):
            self.assertEqual(report.number(value), text)
        for value in (float("inf"), float("nan")):
            with self.assertRaises(ValueError):
                report.number(value)

    def test_the_text(self):
        record = {"schema": "s/1", "dirty": False, "versions": {"triton": "3.6.0"},
                  "unit": [{"ratio": 1.0005}],
                  "problems": [{"kernel": "k", "times": {"a_us": 2.5},
                                "checks": [{"what": 'a "b"', "off": -0.01}]}]}
        self.assertEqual(report.record_text(record), """\
schema: "s/1"
dirty: false
versions: {triton: "3.6.0"}
unit:
  - {ratio: 1.0005}
problems:
  - kernel: "k"
    times: {a_us: 2.5}
    checks:
      - {what: "a \\"b\\"", off: -0.01}
""")


class Measuring(unittest.TestCase):
    """The whole tool on the simulated GPU; `claims` answers with what that GPU takes for a call."""

    def run_tool(self, gpu, ours=lambda size: size / RATE + NODE):
        folder, shapes, sessions = fresh("do_bench"), "1x4096,4096x4096", iter(("s1", "s2", "none"))
        latest = []

        def claims(command, *_):
            if command == "bench":
                latest.append(next(sessions))
                return f"bench on h200; record {folder}/evidence/h200/sessions/{latest[-1]}.yaml\n"
            text = TABLE
            for rows in (1, 4096):
                for kernel, streams in (("rms_norm", 2), ("rms_norm+residual", 4)):
                    us = ours(rows * 4096 * 2 * streams + 8192)
                    session = latest[-1] if latest else "-"
                    text += row(kernel, f"rows={rows},cols=4096", us / 1000, session)
            return text
        about = {"date": "2030-01-01T00:00:00Z", "commit": "c", "versions": {"triton": "3.6.0"}}
        printed = io.StringIO()
        with mock.patch.multiple(do_bench, import_all=lambda: (gpu, None, gpu.testing()), claims=claims,
                                 build_library=lambda _: None, Library=lambda _: gpu.library(),
                                 context=lambda *_: about, CLAIMS=SCRIPT), \
                mock.patch.object(do_bench.Problem, "check"), contextlib.redirect_stdout(printed):
            do_bench.run(do_bench.parse(["--shape", shapes, "--evidence", str(folder), "--out", str(folder)]))
        return printed.getvalue(), (folder / "h200/do_bench.yaml").read_text()

    def test_known_causes_explain_known_times(self):
        printed, record = self.run_tool(Gpu())
        self.assertIn("4 problems; 0 comparisons are not explained", printed)
        self.assertIn("ratio 1.0000", printed)
        self.assertEqual(record.count("within: true"), 16)
        self.assertIn('session: "s1"\nsecond_session: "s2"\n', record)
        try:
            import yaml
        except ImportError:
            return
        read = yaml.safe_load(record)
        self.assertEqual([p["shape"] for p in read["problems"]],
                         ["rows=1,cols=4096"] * 2 + ["rows=4096,cols=4096"] * 2)
        big = read["problems"][2]["times"]
        self.assertAlmostEqual(big["do_bench_us"], LAUNCH + (67117056 + L2) / RATE, 3)
        self.assertAlmostEqual(big["cold_us"], NODE + 67117056 / RATE, 3)
        small = read["problems"][0]["times"]
        self.assertAlmostEqual(small["hot_us"], NODE + 24576 / L2_RATE, 3)
        self.assertAlmostEqual(small["cold_us"], NODE + 24576 / RATE, 3)

    def test_a_timer_in_seconds_is_refused_before_anything_else_is_measured(self):
        gpu = Gpu(unit=1e-6)
        with self.assertRaisesRegex(report.Refused, "do_bench read .* looks like seconds"):
            self.run_tool(gpu)

    def test_a_bench_of_ours_that_is_off_is_told(self):
        printed, record = self.run_tool(Gpu(), ours=lambda size: 1.2 * (size / RATE + NODE))
        self.assertIn("NOT within", printed)
        self.assertIn("within: false", record)


class Commands(unittest.TestCase):
    def run_script(self, *arguments):
        return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True)

    def test_bad_arguments_are_named(self):
        for arguments, words in ((("--shape", "4096"), "shape is '4096'; expected one like 4096x8192"),
                                 (("--rounds", "1"), "rounds is 1; expected 2 or more"),
                                 (("--build-only", "x"), "build-only is 'x'; expected an architecture")):
            result = self.run_script(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(words, result.stderr)

    @unittest.skipIf(has_gpu(), "there is a GPU")
    def test_without_gpu_pytorch_or_triton_the_code_is_5(self):
        result = self.run_script()
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertRegex(result.stderr, r"^do_bench: needs (a GPU|PyTorch)")

    def test_the_library_compiles_and_has_what_is_called(self):
        library = pathlib.Path(fresh("do_bench_library")) / "libdo_bench.so"
        nvcc("-I", SOURCE / "include", "-shared", "-Xcompiler", "-fPIC,-Wall,-Werror",
             SOURCE / "tools/do_bench.cu", "-o", library)
        loaded = do_bench.Library(library)
        for name in ("rms_norm", "empty", "spin", "copy", "read"):
            self.assertTrue(callable(getattr(loaded, name)))
        # Refused before any launch.
        with self.assertRaisesRegex(RuntimeError, "rms_norm: cols is -1, expected"):
            loaded.rms_norm(16, None, 16, 16, None, 4, -1, 1e-6, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
