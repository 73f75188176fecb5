# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""What tools/do_bench concludes from its measurements, and how it records it. No GPU in here. All times
are microseconds unless a name says otherwise."""

import csv
import io
import json
import math
import os
import pathlib
import tempfile

SCHEMA = "capstone-do-bench/1"
UNIT_TOLERANCE = 0.02
TOLERANCE = 0.05
EVENT_RESOLUTION_US = 0.5  # of cudaEventElapsedTime; a smaller difference cannot be told from it


class Refused(Exception):
    """A sentence: why these numbers are not used."""


# ---- the unit ------------------------------------------------------------------------------------

def unit_ratio(measured_ms, empty_ms, known_ns, who):
    """Measured over known duration of a spin kernel, an empty kernel's time taken off for the launch.
    Refused unless what was measured are milliseconds."""
    known_ms = known_ns / 1e6
    ratio = (measured_ms - empty_ms) / known_ms
    if abs(ratio - 1) <= UNIT_TOLERANCE:
        return ratio
    guess = ""
    for unit, factor in (("seconds", 1e-3), ("microseconds", 1e3), ("nanoseconds", 1e6)):
        if abs(ratio / factor - 1) < 0.1:
            guess = f"; it looks like {unit}"
    raise Refused(f"{who} read {measured_ms:.6g} (empty kernel: {empty_ms:.6g}) for a spin of {known_ms:g} "
                  f"ms, {ratio:.4g} of it; expected milliseconds, within {UNIT_TOLERANCE:.0%}{guess}")


def median_of_three(answer, who):
    """(median, low, high) in the unit of `answer`, which is a list of the quantiles 0.5, 0.2, 0.8, or one
    number where this version gives no quantiles."""
    values = list(answer) if isinstance(answer, (list, tuple)) else [answer]
    if len(values) not in (1, 3) or not all(math.isfinite(v) and v >= 0 for v in values):
        raise Refused(f"{who} returned {answer!r}; expected one time or three quantiles")
    return tuple(values) if len(values) == 3 else (values[0],) * 3


# ---- our own times -------------------------------------------------------------------------------

def our_times(table, session):
    """{(kernel, shape): {us, low, high, void}} of one session, from what `claims table` prints."""
    found = {}
    for row in csv.DictReader(io.StringIO(table), delimiter="\t"):
        if row["claim"] != "time" or row["session"] != session or row["baseline"] != "capstone":
            continue
        if row["unit"] != "ms":
            raise Refused(f"claims table gives a time in '{row['unit']}'; expected ms")
        us, low, high = (float(row[key]) * 1000 for key in ("value", "low", "high"))
        found[row["kernel"], row["shape"]] = {"us": us, "low": low, "high": high,
                                              "void": row["verdict"] == "INVALID"}
    if not found:
        raise Refused(f"claims table has no time of session '{session}'; expected those of the last bench")
    return found


# ---- the explanation -----------------------------------------------------------------------------

def compared(name, observed, parts):
    """Whether the parts, [(cause, us)], add up to what was observed."""
    expected = sum(us for _, us in parts)
    allowed = max(TOLERANCE * expected, EVENT_RESOLUTION_US)
    within = abs(observed - expected) <= allowed
    how = " + ".join(f"{us:.4g} ({cause})" for cause, us in parts)
    return {"what": name, "observed_us": observed, "expected_us": expected,
            "off": observed / expected - 1 if expected > 0 else math.inf, "within": within,
            "sentence": f"{name}: {observed:.4g} us, expected {expected:.4g} = {how}: "
                        + ("within" if within else "NOT within") + f" {allowed:.3g} us"}


def explain(m):
    """The comparisons of one problem, each from causes that were measured apart from what they explain.
    `m`: first_us, second_us (claims bench, before and after); do_bench_us, cudagraph_us; copy_us,
    copy_cold_us (a copy of as many bytes under do_bench, and in a graph over rotated buffers); cold_us, hot_us (graphs of
    the call by torch, over rotated buffers and over one set)."""
    ours = (m["first_us"] + m["second_us"]) / 2
    return [
        compared("do_bench", m["do_bench_us"], [
            ("claims bench", ours),
            ("one call between two events, after a flush that leaves L2 dirty: what that adds to a copy of as "
             "many bytes", m["copy_us"] - m["copy_cold_us"])]),
        compared("do_bench_cudagraph", m["cudagraph_us"],
                 [("hot: a graph over one set of buffers", m["hot_us"])]),
        compared("torch graph, cold", m["cold_us"], [("claims bench", ours)]),
        compared("claims bench again", m["second_us"], [("claims bench before", m["first_us"])]),
    ]


# ---- the record ----------------------------------------------------------------------------------

def number(value):
    """As core/records.cpp writes doubles: 4 decimals from 1 on, 4 digits below."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"value is {value}; expected a finite number")
    if value == 0:
        return "0"
    if abs(value) >= 1:
        return f"{value:.4f}".rstrip("0").rstrip(".")
    text = f"{value:.4g}"
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def flow(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    raise ValueError(f"value is {value!r}; expected a string, number, bool, list or dict")


def record_text(record, indent=0):
    """Canonical YAML: keys in the order given; a list of dicts in block style where one of them
    holds such a list, all else in one line."""
    lines, space = [], " " * indent
    for key, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{space}{key}:")
            for item in value:
                if any(isinstance(v, list) and v and isinstance(v[0], dict) for v in item.values()):
                    body = record_text(item, indent + 4)
                    lines.append(space + "  - " + body[indent + 4:].rstrip("\n"))
                else:
                    lines.append(f"{space}  - {flow(item)}")
        else:
            lines.append(f"{space}{key}: {flow(value)}")
    return "\n".join(lines) + "\n"


def write_atomically(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name + ".", delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
