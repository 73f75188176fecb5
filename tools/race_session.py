# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""One interleaved race as `claims bench` times it (core/timer.cu), over arms that a Python process can call,
and its record, which `claims table` reads. No GPU and no PyTorch in here: what touches them is passed in."""

import dataclasses
import functools
import math
import random

import do_bench_report as report

OWN, TWIN, FLOOR = "capstone", "capstone A/A twin", "floor"
MASK = (1 << 64) - 1


class Void(Exception):
    """A sentence: why nothing is claimed from a race."""


@dataclasses.dataclass
class Arm:
    """`run(set)` enqueues one call on buffer set `set`. `is_floor`: competes for being the floor."""
    name: str
    run: object
    version: str = ""
    kernels: tuple = ()
    is_floor: bool = False
    do_bench_ms: float = 0.0


@dataclasses.dataclass
class Options:
    sets: int = 1
    bytes_per_call: int = 0   # that one call touches at least: sets of these are to exceed 3 x L2
    l2_bytes: int = 0
    rounds: int = 40
    sample_us: float = 500
    warm_up_s: float = 0.2
    seed: int = 1


@dataclasses.dataclass
class Timed:
    calls: int
    sets: int
    flushed: bool
    us: list                  # of each arm, per round
    mhz: list = dataclasses.field(default_factory=list)
    watts: list = dataclasses.field(default_factory=list)


def time_arms(gpu, arms, o):
    """Runs every arm once a round, in random order. `gpu` offers now() in seconds, synchronize(),
    timed_us(work), capture([(arm, set)]) -> replay, evict(), state() -> (MHz, watts) or None, and compiled():
    counters that move whenever something is compiled or loaded. Raises Void if one moves while it times."""
    for arm in arms:
        for which in range(o.sets):
            arm.run(which)
        gpu.synchronize()
    begin = gpu.now()
    while gpu.now() - begin < o.warm_up_s:
        for arm in arms:
            arm.run(0)
        gpu.synchronize()

    flushed = o.bytes_per_call > 0 and o.sets * o.bytes_per_call < 3 * o.l2_bytes
    # Always graphs, where claims bench takes events from 50 us on: the host of a Python arm may be slower than
    # its kernel, and what it takes to enqueue is not the kernel's time.
    quick = 20
    us = gpu.timed_us(gpu.capture([(arms[0], i % o.sets) for i in range(quick)])) / quick
    calls = math.ceil(o.sample_us / max(us, 0.1))
    if flushed:
        calls = min(calls, o.sets)  # no set twice in a sample
    else:
        calls = -(-calls // o.sets) * o.sets  # whole rotations: a replay ends where it began
    replays = [gpu.capture([(arm, i % o.sets) for i in range(calls)]) for arm in arms]
    for replay in replays:
        replay()
    gpu.synchronize()

    result = Timed(calls, o.sets, flushed, [[] for _ in arms])
    order, shuffled = list(range(len(arms))), random.Random(o.seed)
    before = gpu.compiled()
    for _ in range(o.rounds):
        shuffled.shuffle(order)
        for i in order:
            if flushed:
                gpu.evict()
            result.us[i].append(gpu.timed_us(replays[i]) / calls)
            state = gpu.state()
            if state is not None:
                result.mhz.append(state[0])
                result.watts.append(state[1])
    after = gpu.compiled()
    moved = [f"{key} went from {before[key]} to {after[key]}" for key in before if before[key] != after[key]]
    if moved:
        raise Void("something was compiled or loaded while it was timed: " + ", ".join(moved))
    return result


# ---- statistics: as core/stats.cpp ---------------------------------------------------------------

def median(values):
    ordered, n = sorted(values), len(values)
    return ordered[n // 2] if n % 2 else (ordered[n // 2 - 1] + ordered[n // 2]) / 2


def quantile(values, q):
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


@functools.lru_cache(maxsize=4)
def _draws(n, seed, resamples):
    draws, state = [], seed
    for _ in range(resamples):
        draw = []
        for _ in range(n):
            state = (state + 0x9e3779b97f4a7c15) & MASK
            z = state
            z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
            z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
            z ^= z >> 31
            draw.append(((z >> 32) * n) >> 32)
        draws.append(draw)
    return draws


def bootstrap_median(values, seed, resamples=1000):
    """The 95 % interval (low, high); the same seed gives the interval that core/stats.cpp gives."""
    medians = [median([values[i] for i in draw]) for draw in _draws(len(values), seed, resamples)]
    return quantile(medians, 0.025), quantile(medians, 0.975)


def paired_ratio(numerator, denominator, seed):
    ratios = [a / b for a, b in zip(numerator, denominator, strict=True)]
    low, high = bootstrap_median(ratios, seed)
    return {"median": median(ratios), "low": low, "high": high}


# ---- the record ----------------------------------------------------------------------------------

def recorded(value):
    """As it reads back from the record."""
    return float(report.number(float(value)))


def is_void(twin):
    return recorded(twin["low"]) > 1.005 or recorded(twin["high"]) < 0.995


def comparison(what, arms, timed, seed, absent):
    """One entry of a session record. `what`: kernel, dtype, rounding, shape, match, fallback, config (a dict),
    bytes, other_processes and, if it has one, its
    suite. `absent`: [{name, version, reason}], the peers that were not raced."""
    own = next(i for i, arm in enumerate(arms) if arm.name == OWN)
    floor = min((i for i, arm in enumerate(arms) if arm.is_floor), key=lambda i: median(timed.us[i]))
    rows, void = [], False
    for i, arm in enumerate(arms):
        if arm.is_floor and i != floor:
            continue
        us = timed.us[i]
        low, high = bootstrap_median(us, seed)
        row = {"name": arm.name, "version": arm.version, "ms": median(us) / 1000, "low": low / 1000,
               "high": high / 1000}
        if i == floor:
            row["name"], row["version"] = FLOOR, arm.name
        if i != own:
            row["speedup"] = paired_ratio(us, timed.us[own], seed)
        if arm.name == TWIN:
            void = is_void(row["speedup"])
        row["spread"] = [quantile(us, q) / 1000 for q in (0.05, 0.25, 0.75, 0.95)]
        if arm.kernels:
            row["kernels"] = list(arm.kernels)
        if arm.do_bench_ms > 0:
            row["do_bench_ms"] = arm.do_bench_ms
        rows.append(row)
    entry = {"kernel": what["kernel"], "dtype": what["dtype"], "rounding": what["rounding"],
             "shape": what["shape"], "layout": "", "match": what["match"], "fallback": what["fallback"],
             "config": what["config"], "bytes": what["bytes"],
             "timing": {"timer": "graph", "rounds": len(timed.us[own]), "calls_per_sample": timed.calls,
                        "sets": timed.sets, "flushed": timed.flushed},
             "sm_mhz": [int(quantile(timed.mhz, q)) for q in (0.0, 0.5, 1.0)] if timed.mhz else [],
             "watts": median(timed.watts) if timed.watts else 0,
             "other_processes": what["other_processes"], "void": void,
             "floor_target": paired_ratio(timed.us[own], timed.us[floor], seed), "arms": rows}
    if what.get("suite"):
        entry["suite"] = what["suite"]
    if absent:
        entry["absent"] = absent
    return entry


def session_text(about, seed, comparisons):
    """`about`: session, date, commit, dirty, binary, toolchain {cuda, flags}, device {...}."""
    return report.record_text({"schema": "capstone-session/1", **about, "note": "", "seed": seed,
                               "voids": sum(c["void"] for c in comparisons), "comparisons": comparisons})
