# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Synthetic records of a GPU that does not exist, with every case that a report must show: confirmed, refuted
and in force, refuted and replaced, inconclusive, invalid, void, lost, missed, held out, and not profiled. The
numbers come from a formula, so each test can compute what a page must hold. `python3 evidence.py DIR` writes
them."""

import hashlib
import json
import pathlib
import sys

import yaml

DEVICE = {
    "id": "gpu",
    "name": "Synthetic GPU",
    "cc": "9.0",
    "sms": 132,
    "l2_bytes": 62914560,
    "driver": "1.2.3",
}
TUNED = [
    (1, 4096),
    (64, 4096),
    (512, 4096),
    (4096, 4096),
    (16384, 4096),
    (16384, 8192),
    (4096, 5120),
    (8192, 7168),
    (2048, 3584),
    (32768, 1024),
    (65536, 256),
    (262144, 64),
]
HELD_OUT = [(3000, 4096), (777, 8192), (20000, 2048)]
RATE, FIXED = 4268.0, 1.6  # GB/s, us
KERNEL, OTHER = "row_scale", "row_scale+residual"
MICRO_METRICS = ("l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum")


def shape_of(rows, cols):
    return f"rows={rows},cols={cols}"


def expected_us(rows, cols):
    return round(FIXED + 4 * rows * cols / (RATE * 1e3), 4)


def band(median, half=0.001):
    return {
        "median": round(median, 4),
        "low": round(median * (1 - half), 4),
        "high": round(median * (1 + half), 4),
    }


def head(schema, session, day):
    return {
        "schema": f"capstone-{schema}/1",
        "session": session,
        "date": f"2026-01-{day:02d}T10:00:00Z",
        "commit": "0" * 40,
        "dirty": False,
        "binary": "sha256:" + "1" * 64,
        "toolchain": {"cuda": "13.0.88", "flags": "-O3"},
        "device": DEVICE,
        "note": "",
    }


def dump(fields):
    return yaml.dump(fields, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False, width=110)


def save(path, fields):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump(fields))
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


# ---- ceilings ------------------------------------------------------------------------------------
def ceilings(folder):
    sizes = [1 << 20, 8 << 20, 64 << 20, 512 << 20]
    return save(
        folder / "ceilings.yaml",
        head("ceilings", "cal-1", 1)
        | {
            "sm_mhz": [1965, 1980, 1980],
            "launch": {"stream_us": 2.41, "graph_node_us": 0.94, "empty_kernel_us": 1.52},
            "chain_us": {"load": 0.71, "reduce": 0.22},
            "floors": [
                {
                    "reads": 1,
                    "writes": 1,
                    "bytes": n,
                    **{k: v for k, v in zip(("us", "low", "high"), (FIXED + n / RATE / 1e3,) * 3)},
                    "variant": "u4 t256 cs",
                }
                for n in sizes
            ],
            "fits": [
                {
                    "reads": 1,
                    "writes": 1,
                    "fixed_us": FIXED,
                    "gb_per_s": RATE,
                    "worst_residual": 0.031,
                    "residuals": [0.01, -0.031, 0.002, 0.0],
                },
                {
                    "reads": 1,
                    "writes": 0,
                    "fixed_us": 1.5,
                    "gb_per_s": 4190.0,
                    "worst_residual": 0.02,
                    "residuals": [],
                },
            ],
            "l2": {
                "edge_bytes": 44040192,
                "plateau_gb_per_s": 9800.0,
                "points": [{"bytes": 1 << 22, "gb_per_s": 9800.0}],
            },
            "rates": {
                "fma_tflops": band(61.3),
                "special_gops": band(4100.0),
                "tensor_bf16_tflops": band(640.0),
            },
            "counters": {
                "ncu": "2025.3.1.0",
                "copies": [],
                "residue_bytes": {"median": 25500000, "low": 25000000, "high": 26000000},
                "noise": {"dram_read": 2500, "dram_write": 0, "l2_read_sectors": 10, "l2_write_sectors": 4},
            },
        },
    )


# ---- predictions and profiles --------------------------------------------------------------------
def counters_of(rows, cols, scale=1.0):
    reads = 2 * rows * cols + 2 * cols
    writes = max(0, 2 * rows * cols - 25500000)
    share = min(1, 2 * reads / (RATE * 1e3) / expected_us(rows, cols))

    def one(metric, unit, value, half, formula):
        return {
            "metric": metric,
            "unit": unit,
            "value": value,
            "low": value * (1 - half),
            "high": value * (1 + half),
            "formula": formula,
        }

    return [
        one(
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            "%",
            round(87 * share, 2),
            0.07,
            "87 % of the copy's",
        ),
        one(
            "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", round(18 * share, 2), 0.4, "issue slots"
        ),
        {
            "metric": "dram__bytes.sum",
            "unit": "byte",
            "value": int(scale * (reads + writes)),
            "low": int(scale * 0.98 * (reads + writes)),
            "high": int(scale * 1.02 * (reads + writes)) + 1000000,
            "formula": "read + written below",
        },
        one("dram__bytes_read.sum", "byte", int(scale * reads), 0.02, f"{reads}"),
        {
            "metric": "dram__bytes_write.sum",
            "unit": "byte",
            "value": writes,
            "low": max(0, writes - 1500000),
            "high": writes + 1500000,
            "formula": "written - 25.5 MB",
        },
        one(
            "lts__t_sectors_srcunit_tex_op_read.sum",
            "sector",
            (2 * rows * cols + 2 * cols) // 32,
            0.01,
            "reads / 32",
        ),
        one("lts__t_sectors_srcunit_tex_op_write.sum", "sector", 2 * rows * cols // 32, 0.005, "writes / 32"),
        *(
            {"metric": metric, "unit": "byte", "value": 0, "low": 0, "high": 0, "formula": "no spills"}
            for metric in MICRO_METRICS
        ),
    ]


def prediction(folder, rows, cols, n=1, kernel=KERNEL, supersedes="", why="", flops=4, scale=1.0, prior=0):
    """Writes one; gives (its fields, its path from the device's folder, its digest)."""
    t, shape = expected_us(rows, cols), shape_of(rows, cols)
    count = flops * rows * cols
    fields = {
        "schema": "capstone-prediction/1",
        "date": f"2026-01-{2 + n:02d}T09:00:00Z",
        "commit": "a" * 40,
        "supersedes": supersedes,
        "why": why,
        "kernel": kernel,
        "dtype": "bf16",
        "shape": shape,
        "layout": "",
        "device": DEVICE,
        "ceilings": "sha256:" + "c" * 64,
        "source": "sha256:" + "d" * 64,
        "config": {"lanes": 256},
        "model": "full" if flops else "memory only",
        "prior_profiles": prior,
        "launch": {
            "symbol": "_Z5entryv",
            "grid": rows,
            "block": 256,
            "kernels": 1,
            "registers": 40,
            "smem_bytes": 0,
            "waves": rows / 132 / 8,
        },
        "state": {"l2": "cold"},
        "terms": [
            {"name": "dram", "formula": f"{4 * rows * cols} B / {RATE} GB/s", "us": round(t - FIXED, 4)},
            {"name": "fma", "formula": f"{count} flops / 61.3 TFLOP/s", "us": round(count / 61.3e6, 4)},
            {"name": "launch", "formula": "graph node", "us": 0.94},
        ],
        "binding": {"term": "dram", "second": "fma", "margin": 14.4},
        "time_us": {
            "expected": t,
            "low": round(0.96 * t, 4),
            "high": round(1.05 * t, 4),
            "physics": round(0.8 * t, 4),
        },
        "counters": counters_of(rows, cols, scale),
        "rivals": [
            {"name": "unfused", "story": "a kernel an operation", "excluded_by": ["dram__bytes_read.sum"]},
            {
                "name": "L2-resident",
                "story": "the inputs come from L2",
                "excluded_by": ["dram__bytes_read.sum"],
            },
        ],
        "launch_dominates_below": {"rows": 24, "bytes": 6800000},
    }
    path = f"predictions/{kernel}.bf16/{shape}.{n}.yaml"
    return fields, path, save(folder / path, fields)


def wobble(index, step):
    """A small number of either sign that depends on its arguments alone."""
    return ((index * 7 + step * 3) % 11 - 5) / 5


def profiled(made, index, scale=None, time=1.0, verdict="CONFIRMED", faults=(), story="", next_step=""):
    """One problem of a profile; `scale` multiplies what a metric's counter reads."""
    fields, path, digest = made
    counters, verdicts = [], [
        {"claim": "identity", "verdict": "CONFIRMED", "observed": 1, "low": 1, "high": 1, "why": ""}
    ]
    for fault in faults:
        kind, _, sentence = fault.partition(": ")
        verdicts.append(
            {"claim": "run", "verdict": kind, "observed": 0, "low": 0, "high": 0, "why": sentence}
        )
    for i, c in enumerate(fields["counters"]):
        middle = c["value"] * (1 + 0.4 * wobble(index, i) * (c["high"] / c["value"] - 1 if c["value"] else 0))
        middle *= (scale or {}).get(c["metric"], 1)
        values = [round(middle * (1 + 0.0004 * wobble(k, i)), 2) for k in range(5)]
        median = sorted(values)[2]
        counters.append({"metric": c["metric"], "unit": c["unit"], "values": values})
        inside = c["low"] <= median <= c["high"]
        verdicts.append(
            {
                "claim": c["metric"],
                "verdict": "CONFIRMED" if inside else "REFUTED",
                "observed": median,
                "low": c["low"],
                "high": c["high"],
                "why": "" if inside else f"{median / c['value']:.4g} of the predicted value",
            }
        )
    t = fields["time_us"]
    us = round(t["expected"] * time * (1 + 0.015 * wobble(index, 1)), 4)
    inside = t["low"] <= us <= t["high"]
    verdicts.append(
        {
            "claim": "time",
            "verdict": "CONFIRMED" if inside else "REFUTED",
            "observed": us,
            "low": t["low"],
            "high": t["high"],
            "why": "" if inside else f"{us / t['expected']:.4g} of the expected time",
        }
    )
    order = ["CONFIRMED", "INCONCLUSIVE", "REFUTED", "INVALID"]
    worst = max((v["verdict"] for v in verdicts), key=order.index)
    assert worst == verdict, (path, worst, verdict)
    return {
        "kernel": fields["kernel"],
        "dtype": "bf16",
        "shape": fields["shape"],
        "layout": "",
        "config": {"lanes": 256},
        "prediction": path,
        "prediction_sha256": digest,
        "passes": {"core": 1, "pipes": 8},
        "launches": 5,
        "l2": "cold",
        "seen": {"symbols": ["_Z5entryv"], "kernels": 1, "grid": 1, "block": 256, "streams": 0},
        "time_us": band(us),
        "floor_us": band(us * 0.98),
        "counters": counters,
        "faults": list(faults),
        "verdicts": verdicts,
        "verdict": verdict,
        "story": story,
        "next": next_step,
    }


def profile(folder, session, day, problems):
    save(
        folder / f"profiles/{session}.yaml",
        head("profile", session, day)
        | {"ncu": "2025.3.1.0", "options": ["--cache-control", "all"], "seed": 1, "problems": problems},
    )


READ = "dram__bytes_read.sum"
TWICE = {READ: 2.0, "dram__bytes.sum": 1.5, "lts__t_sectors_srcunit_tex_op_read.sum": 2.0}


def predictions_and_profiles(folder):
    first, second = [], []
    for i, (rows, cols) in enumerate([*TUNED, *HELD_OUT]):
        if (rows, cols) == (4096, 5120):  # refuted, then replaced
            made = prediction(folder, rows, cols)
            first.append(
                profiled(
                    made,
                    i,
                    TWICE,
                    verdict="REFUTED",
                    story="bytes too many, by a factor of 2 in reads",
                    next_step="find the second read",
                )
            )
            made = prediction(
                folder, rows, cols, 2, supersedes=made[2], why="the row is read twice; now modelled", prior=1
            )
            second.append(profiled(made, i))
        elif (rows, cols) == (8192, 7168):  # refuted and in force
            first.append(
                profiled(
                    prediction(folder, rows, cols),
                    i,
                    time=1.21,
                    verdict="REFUTED",
                    story="the bytes are as predicted, the time is longer",
                    next_step="look at the tail",
                )
            )
        elif (rows, cols) == (1, 4096):
            first.append(
                profiled(
                    prediction(folder, rows, cols),
                    i,
                    verdict="INCONCLUSIVE",
                    faults=["INCONCLUSIVE: the launches last 2 us, less than the counters need"],
                    story="run: too short",
                    next_step="profile again once the reason is gone",
                )
            )
        elif (rows, cols) == (64, 4096):
            first.append(
                profiled(
                    prediction(folder, rows, cols),
                    i,
                    verdict="INVALID",
                    faults=["INVALID: the binary is not the one that was verified"],
                    story="run: another binary",
                    next_step="nothing is claimed from this profile",
                )
            )
        elif (rows, cols) == (262144, 64):
            prediction(folder, rows, cols)  # never profiled
        else:
            first.append(profiled(prediction(folder, rows, cols), i))
    other = prediction(folder, 4096, 4096, kernel=OTHER, flops=0)  # a model of memory only
    second.append(profiled(other, 3))
    profile(folder, "prof-1", 5, first)
    profile(folder, "prof-2", 8, second)


# ---- sessions and verification -------------------------------------------------------------------
def comparison(rows, cols, kernel=KERNEL, over_floor=1.004, twin=1.0, gains=None, timer="graph"):
    ms = round(expected_us(rows, cols) / 1e3, 6)
    arms = [
        {
            "name": "capstone",
            "version": "",
            "ms": ms,
            "low": round(ms * 0.999, 6),
            "high": round(ms * 1.001, 6),
        }
    ]

    def arm(name, ratio):
        arms.append(
            {
                "name": name,
                "version": "1.0",
                "ms": ms * ratio,
                "low": ms * ratio * 0.999,
                "high": ms * ratio * 1.001,
                "speedup": band(ratio),
            }
        )

    arm("capstone A/A twin", twin)
    for name, ratio in (gains or {"unfused": 3.1, "rival": 1.08}).items():
        arm(name, ratio)
    arm("floor", 1 / over_floor)
    return {
        "kernel": kernel,
        "dtype": "bf16",
        "rounding": "float32 throughout",
        "shape": shape_of(rows, cols),
        "layout": "",
        "match": "exact",
        "fallback": False,
        "config": {"lanes": 256},
        "bytes": 4 * rows * cols,
        "timing": {"timer": timer, "rounds": 40, "calls_per_sample": 10, "sets": 3, "flushed": False},
        "sm_mhz": [1980, 1980, 1980],
        "watts": 400.0,
        "other_processes": 0,
        "void": twin * 0.999 > 1.005 or twin * 1.001 < 0.995,
        "floor_target": band(over_floor),
        "arms": arms,
    }


def session(folder, name, day, comparisons):
    save(
        folder / f"sessions/{name}.yaml",
        head("session", name, day)
        | {"seed": 1, "voids": sum(c["void"] for c in comparisons), "comparisons": comparisons},
    )


def sessions(folder):
    first = [
        comparison(1, 4096, twin=0.98),
        comparison(64, 4096, over_floor=1.18),
        comparison(4096, 4096),
        comparison(16384, 4096, gains={"unfused": 3.3, "rival": 0.94}),  # a lost race
        comparison(16384, 8192, over_floor=1.062),  # a missed target
        comparison(4096, 5120, gains={"unfused": 3.3, "rival": 1.0002}),  # undecided
        comparison(8192, 7168),
        comparison(32768, 1024, gains={"unfused": 5.5, "rival": 1.3}),
        comparison(262144, 64, gains={"unfused": 17.2, "rival": 2.0}),
        comparison(3000, 4096),
        comparison(4096, 4096, OTHER, gains={"unfused": 4.0}),
    ]
    session(folder, "race-1", 3, first)
    session(folder, "race-2", 6, [comparison(16384, 8192, over_floor=1.012)])  # the target is met now


def verify(folder, kernel, dtype, fault=""):
    problems = []
    for suite, shapes in (
        ("llm", TUNED[:9]),
        ("narrow", TUNED[9:]),
        ("edge", [(3, 17), (5, 1)]),
        ("shape", HELD_OUT),
    ):
        for rows, cols in shapes:
            bad = bool(fault) and (rows, cols) == (5, 1)
            problems.append(
                {
                    "suite": suite,
                    "shape": shape_of(rows, cols),
                    "layout": "",
                    "match": "exact",
                    "fallback": False,
                    "config": {"lanes": 256},
                    "passed": not bad,
                    "fault": fault if bad else "",
                    "outputs": [
                        {
                            "output": "y",
                            "count": rows * cols,
                            "failures": 3 if bad else 0,
                            "ratio": 1.75 if bad else 0.91,
                            "row": 0,
                            "col": 0,
                            "actual": "1",
                            "expected": "1",
                            "error": 0.1,
                            "bound": 0.1,
                            "bias": 0.0,
                            "bias_limit": 0.1,
                        }
                    ],
                }
            )
    save(
        folder / f"verify/{kernel}.{dtype}.yaml",
        head("verify", "verify-1", 2)
        | {"kernel": kernel, "dtype": dtype, "rounding": "float32 throughout", "problems": problems},
    )


# ---- timelines -----------------------------------------------------------------------------------
def lane(name, calls, kernels_per_call, kernel_us, period_us, api_us):
    """`period_us` from one kernel's begin to the next one's."""
    events = [[round(i * period_us, 3), kernel_us, i % kernels_per_call] for i in range(40)]
    window = calls * kernels_per_call * period_us
    busy = calls * kernels_per_call * kernel_us
    launches = [[max(0.0, round(i * period_us - 1.2, 3)), api_us] for i in range(40)] if api_us else []
    return {
        "name": name,
        "calls": calls,
        "kernels_per_call": kernels_per_call,
        "wall_us_per_call": round(kernels_per_call * period_us * 0.95, 4),
        "window_us": window,
        "busy_us": busy,
        "gap_us": round(window - busy, 4),
        "launch_share": round((window - busy) / window, 4),
        "api_us_per_call": api_us * kernels_per_call,
        "kernel_us": kernel_us,
        "names": [f"kernel_{k}" for k in range(kernels_per_call)],
        "kernels": events,
        "launches": launches,
    }


def timeline(folder, kernel, rows, cols, lanes, version=2):
    if version >= 2:
        for each in lanes:
            share = each["launch_share"]
            each.update(shares=[round(share * part, 4) for part in (0.9, 1, 1.05)], overhead_us=0.4)
    tracer = {"source": "CUPTI activity 13.0"}
    if version >= 2:
        fallback = "nsys: no importer beside it"
        tracer = {"tracer": {"name": "CUPTI activity", "version": "13.0", "fallback": fallback}}
    stem = folder / f"timelines/{kernel}.bf16.{shape_of(rows, cols)}"
    save(
        stem.with_name(stem.name + ".yaml"),
        head("timeline", "time-1", 9)
        | {
            "schema": f"capstone-timeline/{version}",
            **tracer,
            "kernel": kernel,
            "dtype": "bf16",
            "shape": shape_of(rows, cols),
            "layout": "",
            "lanes": lanes,
        },
    )
    stem.with_name(stem.name + ".json").write_text(json.dumps({"traceEvents": []}))


def timelines(folder):
    timeline(
        folder,
        KERNEL,
        1,
        4096,
        [
            lane("capstone, stream", 200, 1, 1.3, 2.6, 1.9),
            lane("capstone, graph", 200, 1, 1.3, 1.9, 0),
            lane("unfused, stream", 200, 4, 1.1, 2.5, 1.9),
            lane("unfused, graph", 200, 4, 1.1, 1.7, 0),
        ],
    )
    timeline(
        folder,
        KERNEL,
        2,
        64,
        [  # kernels thinner than a pixel between wide gaps
            lane("capstone, stream", 200, 1, 0.2, 25.0, 3.0),
            lane("unfused, stream", 200, 4, 0.2, 20.0, 3.0),
        ],
    )
    timeline(
        folder,
        KERNEL,
        16384,
        8192,
        [
            lane("capstone, stream", 40, 1, 130.0, 131.0, 1.9),
            lane("unfused, stream", 40, 4, 100.0, 101.5, 1.9),
        ],
        version=1,  # of one window
    )


SENTENCES = [
    ("device", "kernel", "dtype", "baseline", "kind", "sentence"),
    (
        "gpu",
        KERNEL,
        "bf16",
        "rival",
        "fused",
        "row_scale bf16 takes 0.93 of the time of rival at 4096 x 4096.",
    ),
    ("gpu", KERNEL, "bf16", "unfused", "unfused", "row_scale bf16 takes 0.32 of the unfused chain's time."),
]


def build(evidence):
    """Fills an empty folder; gives the folder of its device."""
    folder = pathlib.Path(evidence) / DEVICE["id"]
    ceilings(folder)
    predictions_and_profiles(folder)
    sessions(folder)
    verify(folder, KERNEL, "bf16")
    verify(folder, OTHER, "bf16")
    verify(folder, KERNEL, "f16", fault="3 of 5 elements are wrong")  # a kernel with a verification alone
    timelines(folder)
    return folder


if __name__ == "__main__":
    build(sys.argv[1])
