# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Reads evidence/<device>/. Whatever is missing inside a record, of another type, or at odds with another
record is a RecordError that names the file. Keys that are not used here pass: `claims check` reads every
record with the strict reader of the tool that wrote it. A kind of record that is not there is normal."""

import dataclasses
import hashlib
import json
import math
import pathlib

import yaml

NUMBER = "a number"
COUNT = "a whole number"


class RecordError(Exception):
    """`file: sentence`."""


class Record(dict):
    """A record's fields, its `path` and the `digest` of its bytes ("sha256:…")."""

    def __init__(self, fields, path, digest):
        super().__init__(fields)
        self.path, self.digest = path, digest


# ---- what a record must hold: a type, [type], {key: type}; a key that en -------------------------
BAND = {"median": NUMBER, "low": NUMBER, "high": NUMBER}
HEAD = {
    "schema": str,
    "session": str,
    "date": str,
    "commit": str,
    "dirty": bool,
    "device": {"id": str, "name": str, "l2_bytes": COUNT, "sms": COUNT, "driver": str},
}
OUTPUT = {"output": str, "count": COUNT, "failures": COUNT, "ratio": NUMBER}
VERIFY = HEAD | {
    "kernel": str,
    "dtype": str,
    "rounding": str,
    "problems": [
        {"suite": str, "shape": str, "layout": str, "passed": bool, "fault": str, "outputs": [OUTPUT]}
    ],
}
ARM = {"name": str, "version": str, "ms": NUMBER, "low": NUMBER, "high": NUMBER, "speedup?": BAND}
SESSION = HEAD | {
    "seed": COUNT,
    "voids": COUNT,
    "comparisons": [
        {
            "kernel": str,
            "dtype": str,
            "rounding": str,
            "shape": str,
            "layout": str,
            "bytes": COUNT,
            "timing": {"timer": str, "rounds": COUNT},
            "void": bool,
            "floor_target": BAND,
            "arms": [ARM],
        }
    ],
}
CEILINGS = HEAD | {
    "sm_mhz": [COUNT],
    "launch": {"stream_us": NUMBER, "graph_node_us": NUMBER, "empty_kernel_us": NUMBER},
    "chain_us": {"load": NUMBER, "reduce": NUMBER},
    "floors": [
        {
            "reads": COUNT,
            "writes": COUNT,
            "bytes": COUNT,
            "us": NUMBER,
            "low": NUMBER,
            "high": NUMBER,
            "variant": str,
        }
    ],
    "fits": [
        {"reads": COUNT, "writes": COUNT, "fixed_us": NUMBER, "gb_per_s": NUMBER, "worst_residual": NUMBER}
    ],
    "l2": {"edge_bytes": COUNT, "plateau_gb_per_s": NUMBER},
    "rates": {
        name: {"median?": NUMBER, "value?": NUMBER, "low": NUMBER, "high": NUMBER}
        for name in ("fma_tflops", "special_gops", "tensor_bf16_tflops")
    },
    "counters?": {"ncu": str, "residue_bytes": BAND},
    "why_no_counters?": str,
}
COUNTER = {"metric": str, "unit": str}
PREDICTION = {
    "schema": str,
    "date": str,
    "commit": str,
    "supersedes": str,
    "why": str,
    "kernel": str,
    "dtype": str,
    "shape": str,
    "layout": str,
    "device": {"id": str},
    "ceilings": str,
    "source": str,
    "model": str,
    "prior_profiles": COUNT,
    "launch": {"grid": COUNT, "block": COUNT, "kernels": COUNT, "waves": NUMBER},
    "terms": [{"name": str, "formula": str, "us": NUMBER}],
    "binding": {"term": str, "second": str, "margin": NUMBER},
    "time_us": {"expected": NUMBER, "low": NUMBER, "high": NUMBER, "physics": NUMBER},
    "counters": [COUNTER | {"value": NUMBER, "low": NUMBER, "high": NUMBER, "formula": str}],
    "rivals": [{"name": str, "story": str, "excluded_by": [str]}],
}
# the last one of them that occurs is the whole's
VERDICTS = ("CONFIRMED", "INCONCLUSIVE", "REFUTED", "INVALID")
PROFILE = HEAD | {
    "ncu": str,
    "options": [str],
    "problems": [
        {
            "kernel": str,
            "dtype": str,
            "shape": str,
            "layout": str,
            "prediction": str,
            "prediction_sha256": str,
            "launches": COUNT,
            "time_us": BAND,
            "floor_us": BAND,
            "counters": [COUNTER | {"values": list}],
            "faults": [str],
            "verdict": str,
            "story": str,
            "next": str,
            "verdicts": [
                {"claim": str, "verdict": str, "observed": NUMBER, "low": NUMBER, "high": NUMBER, "why": str}
            ],
        }
    ],
}
TIMELINE = {
    "schema": str,
    "source?": str,  # of schema 1: the tracer's name and version
    "tracer?": {"name": str, "version": str, "fallback": str},
    "kernel": str,
    "dtype": str,
    "shape": str,
    "layout": str,
    "lanes": [
        {
            "name": str,
            "calls": COUNT,
            "kernels_per_call": NUMBER,
            "wall_us_per_call": NUMBER,
            "window_us": NUMBER,
            "busy_us": NUMBER,
            "gap_us": NUMBER,
            "launch_share": NUMBER,
            "shares?": [NUMBER],
            "api_us_per_call": NUMBER,
            "kernel_us": NUMBER,
            "names": [str],
            "kernels": [[NUMBER]],
            "launches": [[NUMBER]],
        }
    ],
}


def _is(value, kind):
    if kind is NUMBER:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if kind is COUNT:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _expect(value, kind, path, where):
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            raise RecordError(f"{path}: {where or 'the record'} is {value!r}; expected a map")
        for key, inner in kind.items():
            name = key.rstrip("?")
            at = f"{where}.{name}" if where else name
            if value.get(name) is None:
                if key == name:
                    raise RecordError(f"{path}: {at} is missing")
            else:
                _expect(value[name], inner, path, at)
    elif isinstance(kind, list):
        if not isinstance(value, list):
            raise RecordError(f"{path}: {where} is {value!r}; expected a list")
        for i, item in enumerate(value):
            _expect(item, kind[0], path, f"{where}[{i}]")
    elif not _is(value, kind):
        raise RecordError(
            f"{path}: {where} is {value!r}; expected {kind if isinstance(kind, str) else kind.__name__}"
        )


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Plain YAML, but a key may not occur twice."""

    def construct_mapping(self, node, deep=False):
        keys = [str(key.value) for key, _ in node.value]
        if len(set(keys)) != len(keys):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {twice!r} occurs twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


def read(path, schema, fields, older=()):
    """One record, checked against its fields and its schema's name; `older` schemas are read as well."""
    try:
        data = path.read_bytes()
        found = yaml.load(data, Loader=_Loader)
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise RecordError(f"{path}: " + " ".join(str(error).split())) from error
    _expect(found, fields, path, "")
    if found["schema"] not in (schema, *older):
        raise RecordError(f"{path}: schema is {found['schema']!r}; expected {schema!r}")
    return Record(found, path, "sha256:" + hashlib.sha256(data).hexdigest())


@dataclasses.dataclass
class Device:
    """All records of one device; the lists are in the order of their files' names."""

    id: str
    folder: pathlib.Path
    ceilings: Record | None
    predictions: list
    profiles: list
    sessions: list
    verify: list
    timelines: list

    def describe(self):
        """The device's own fields, from any record that has them."""
        for record in [self.ceilings, *self.profiles, *self.sessions, *self.verify]:
            if record:
                return record["device"]
        return {"id": self.id, "name": self.id}


def _check_session(record):
    for i, c in enumerate(record["comparisons"]):
        names = [arm["name"] for arm in c["arms"]]
        for name in ("capstone", "capstone A/A twin", "floor"):
            if name not in names:
                raise RecordError(f"{record.path}: comparisons[{i}].arms has no arm named {name!r}")
        for arm in c["arms"]:
            if (arm.get("speedup") is None) != (arm["name"] == "capstone"):
                raise RecordError(f"{record.path}: comparisons[{i}]: a speedup for every arm but capstone")
        twin = c["arms"][names.index("capstone A/A twin")]["speedup"]
        is_void = twin["low"] > 1.005 or twin["high"] < 0.995
        if c["void"] != is_void:
            raise RecordError(
                f"{record.path}: comparisons[{i}].void is {c['void']}; expected {is_void}, as its A/A "
                "interval says"
            )


def _check_predictions(predictions):
    """Names agree with contents, and every `supersedes` is the digest of an earlier one of the same
    problem."""
    by_digest = {p.digest: p for p in predictions}
    for p in predictions:
        problem = ",".join([p["shape"], *p["layout"].split()])
        stem, _, number = p.path.stem.rpartition(".")
        if p.path.parent.name != f"{p['kernel']}.{p['dtype']}" or stem != problem or not number.isdigit():
            raise RecordError(
                f"{p.path}: expected the name {p['kernel']}.{p['dtype']}/{problem}.<n>.yaml, as its "
                "contents say"
            )
        p["n"] = int(number)
        before = by_digest.get(p["supersedes"])
        if p["supersedes"] and (
            before is None or any(before[k] != p[k] for k in ("kernel", "dtype", "shape", "layout"))
        ):
            raise RecordError(
                f"{p.path}: supersedes {p['supersedes']}, which is no prediction of {p['shape']}"
            )
        if before is not None:
            p["replaces"] = before
            if "replaced_by" in before:
                raise RecordError(
                    f"{p.path}: supersedes {before.path.name}, which "
                    f"{before['replaced_by'].path.name} supersedes already"
                )
            before["replaced_by"] = p


def _check_profile(record, predictions, folder):
    by_path = {p.path: p for p in predictions}
    for i, problem in enumerate(record["problems"]):
        at = f"{record.path}: problems[{i}]"
        prediction = by_path.get(folder / problem["prediction"])
        if prediction is None:
            raise RecordError(f"{at}.prediction is {problem['prediction']!r}; there is no such prediction")
        if problem["prediction_sha256"] != prediction.digest:
            raise RecordError(
                f"{at}.prediction_sha256 is not that of {problem['prediction']}: one of them was changed"
            )
        if any(prediction[k] != problem[k] for k in ("kernel", "dtype", "shape", "layout")):
            raise RecordError(f"{at}.prediction is {problem['prediction']!r}, which is of another problem")
        verdicts = [v["verdict"] for v in problem["verdicts"]]
        verdicts += [fault.split(":")[0] for fault in problem["faults"]]
        for verdict in [problem["verdict"], *verdicts]:
            if verdict not in VERDICTS:
                raise RecordError(
                    f"{at} holds the verdict {verdict!r}; expected one of {', '.join(VERDICTS)}"
                )
        worst = max(verdicts, key=VERDICTS.index, default="INCONCLUSIVE")
        if problem["verdict"] != worst:
            raise RecordError(
                f"{at}.verdict is {problem['verdict']}; expected {worst}, the worst of its claims"
            )
        for counter in problem["counters"]:
            for value in counter["values"]:
                if value is not None and not _is(value, NUMBER):
                    raise RecordError(f"{at}: {counter['metric']} holds {value!r}; expected numbers")
        problem["predicted"] = prediction


def _check_timeline(record):
    here, other = ("source", "tracer") if record["schema"].endswith("/1") else ("tracer", "source")
    if record.get(here) is None or record.get(other) is not None:
        raise RecordError(f"{record.path}: {here} is missing, or {other} is there; expected {here} alone")
    if not record["lanes"]:
        raise RecordError(f"{record.path}: lanes is empty")
    for i, lane in enumerate(record["lanes"]):
        for key, width in (("kernels", 3), ("launches", 2)):
            for interval in lane[key]:
                if len(interval) != width or interval[1] < 0:
                    raise RecordError(
                        f"{record.path}: lanes[{i}].{key} holds {interval}; expected [start, duration"
                        + (", index]" if width == 3 else "]")
                    )
        if any(not 0 <= k[2] < len(lane["names"]) for k in lane["kernels"]):
            raise RecordError(f"{record.path}: lanes[{i}].kernels names a kernel that is not in names")


def read_device(folder):
    def all_of(pattern, schema, fields, version=1):
        older = [f"capstone-{schema}/{v}" for v in range(1, version)]
        name = f"capstone-{schema}/{version}"
        return [read(path, name, fields, older) for path in sorted(folder.glob(pattern))]

    ceilings = all_of("ceilings.yaml", "ceilings", CEILINGS)
    device = Device(
        folder.name,
        folder,
        ceilings[0] if ceilings else None,
        all_of("predictions/*/*.yaml", "prediction", PREDICTION),
        all_of("profiles/*.yaml", "profile", PROFILE),
        all_of("sessions/*.yaml", "session", SESSION),
        all_of("verify/*.yaml", "verify", VERIFY),
        all_of("timelines/*.yaml", "timeline", TIMELINE, version=2),
    )
    for record in device.sessions:
        _check_session(record)
    _check_predictions(device.predictions)
    for record in device.profiles:
        _check_profile(record, device.predictions, folder)
    for record in device.timelines:
        _check_timeline(record)
        trace = record.path.with_suffix(".json")
        try:
            record["trace"] = trace if trace.exists() and json.loads(trace.read_bytes()) is not None else None
        except ValueError as error:
            raise RecordError(f"{trace}: {error}") from error
    for record in [*device.profiles, *device.sessions, *device.verify, *ceilings, *device.predictions]:
        if record["device"]["id"] != device.id:
            raise RecordError(
                f"{record.path}: device is {record['device']['id']!r}; expected {device.id!r}, its folder"
            )
    return device


def read_evidence(folder):
    """Every device below `folder`, by id."""
    if not folder.is_dir():
        raise RecordError(f"{folder}: expected a folder with one folder a device")
    devices = [read_device(path) for path in sorted(folder.iterdir()) if path.is_dir()]
    if not devices:
        raise RecordError(f"{folder}: holds no device")
    return devices


SENTENCE_COLUMNS = ("device", "kernel", "dtype", "baseline", "kind", "sentence")


def read_sentences(path):
    """[{device, kernel, dtype, baseline, kind, sentence}] of `claims table --sentences`; kind is "fused" or
    "unfused"."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise RecordError(f"{path}: {error}") from error
    if not lines or tuple(lines[0].split("\t")) != SENTENCE_COLUMNS:
        raise RecordError(f"{path}:1: expected the columns {', '.join(SENTENCE_COLUMNS)}, with tabs between")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        row = dict(zip(SENTENCE_COLUMNS, line.split("\t")))
        if len(row) != len(SENTENCE_COLUMNS) or line.count("\t") != len(row) - 1:
            raise RecordError(
                f"{path}:{number}: {line.count(chr(9)) + 1} cells; expected {len(SENTENCE_COLUMNS)}"
            )
        if row["kind"] not in ("fused", "unfused"):
            raise RecordError(f"{path}:{number}: kind is {row['kind']!r}; expected fused or unfused")
        rows.append(row)
    return rows
