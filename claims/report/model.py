# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Joins the records of a kernel and dtype, and draws from them what speaks against it. Times in
microseconds."""

import collections
import dataclasses
import re
import statistics

OWN, TWIN, FLOOR = "capstone", "capstone A/A twin", "floor"
SECTOR_BYTES = 32
# The rules of `claims table` (claims/table.cpp); a test compares the two over the committed records.
TARGET_BYTES = 67_000_000
HOST_TIMER = "host"
# Shapes the kernels were tuned on; whatever else is measured is held out.
TUNED_SUITES = ("llm", "narrow")


def dims(shape):
    """{'rows': 4096, 'cols': 8192} of rows=4096,cols=8192; empty where it is written otherwise."""
    return {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", shape)}


def shape_key(shape):
    return list(reversed(dims(shape).values())), shape


def short(shape, layout=""):
    """4096 x 8192 for rows=4096,cols=8192."""
    text = " x ".join(str(size) for size in dims(shape).values()) or shape
    return f"{text} {layout}".strip()


def is_unfused(baseline):
    """Whether the baseline runs one kernel an operation; all others count as fused already."""
    return any(word in baseline.lower() for word in ("unfused", "eager"))


@dataclasses.dataclass
class Comparison:
    """One comparison of a session, with the verdict on every arm but the twin."""

    session: dict
    fields: dict

    def __post_init__(self):
        self.shape, self.layout, self.void = self.fields["shape"], self.fields["layout"], self.fields["void"]
        self.arms = {arm["name"]: arm for arm in self.fields["arms"]}
        self.baselines = [name for name in self.arms if name not in (OWN, TWIN, FLOOR)]

    def target(self):
        """The most that capstone / floor may be, or None where nothing is promised."""
        if self.fields["timing"]["timer"] == HOST_TIMER or self.fields["bytes"] < TARGET_BYTES:
            return None
        return 1.03 if dims(self.shape).get("cols", 0) <= 16384 else 1.05

    def verdict(self, name):
        if self.void:
            return "INVALID"
        if name == FLOOR:
            band, target = self.fields["floor_target"], self.target()
            if target is None:
                return "INCONCLUSIVE"
            return (
                "CONFIRMED"
                if band["high"] <= target
                else "REFUTED" if band["low"] > target else "INCONCLUSIVE"
            )
        if self.fields["timing"]["timer"] == HOST_TIMER:
            return "INCONCLUSIVE"
        twin, band = self.arms[TWIN]["speedup"], self.arms[name]["speedup"]
        strayed = max(abs(twin["low"] - 1), abs(twin["high"] - 1))
        return "CONFIRMED" if band["low"] > 1 + strayed else "REFUTED" if band["high"] < 1 else "INCONCLUSIVE"

    def over_floor(self, name):
        """(median, low, high) of the arm's time over the floor's median of this comparison."""
        arm, floor = self.arms[name], self.arms[FLOOR]["ms"]
        return arm["ms"] / floor, arm["low"] / floor, arm["high"] / floor

    def spread_over_floor(self, name):
        """[5, 25, 75, 95 % of the arm's rounds] over the floor's median; empty in older records."""
        return [ms / self.arms[FLOOR]["ms"] for ms in self.arms[name].get("spread", [])]


@dataclasses.dataclass
class Run:
    """A prediction with one profile that judged it."""

    prediction: dict
    profile: dict
    problem: dict

    def values(self, metric):
        """The launches' numbers of a metric; empty where there are none."""
        for counter in self.problem["counters"]:
            if counter["metric"] == metric:
                return [value for value in counter["values"] if value is not None]
        return []

    def measured(self, metric):
        values = self.values(metric)
        return statistics.median(values) if values else None


@dataclasses.dataclass
class Loss:
    """Something that speaks against us, or that does not speak for us."""

    rank: int
    verdict: str
    claim: str
    shape: str
    numbers: str
    why: str
    records: list
    since: str = ""  # what replaced it

    def is_refuted(self):
        return self.verdict == "REFUTED" and not self.since


class Kernel:
    """All records of a kernel and dtype on a device."""

    def __init__(self, device, name, dtype):
        self.device, self.name, self.dtype = device, name, dtype

        def is_own(record):
            return record["kernel"] == name and record["dtype"] == dtype

        self.verify = next((r for r in device.verify if is_own(r)), None)
        self.comparisons = [Comparison(s, c) for s in device.sessions for c in s["comparisons"] if is_own(c)]
        self.predictions = sorted(
            (p for p in device.predictions if is_own(p)), key=lambda p: (shape_key(p["shape"]), p["n"])
        )
        self.runs = [Run(q["predicted"], r, q) for r in device.profiles for q in r["problems"] if is_own(q)]
        self.runs.sort(key=lambda run: (shape_key(run.prediction["shape"]), run.prediction["n"]))
        self.timelines = sorted(
            (t for t in device.timelines if is_own(t)), key=lambda t: shape_key(t["shape"])
        )
        self.rounding = next(
            (r["rounding"] for r in [self.verify, *(c.fields for c in self.comparisons)] if r), ""
        )
        self.tuned = {
            (p["shape"], p["layout"])
            for p in (self.verify or {"problems": []})["problems"]
            if p["suite"] in TUNED_SUITES
        }

    @property
    def title(self):
        return f"{self.name}, {self.dtype}"

    def is_held_out(self, shape, layout):
        return (shape, layout) not in self.tuned

    def latest(self):
        """The latest comparison of each shape that is not void, as `claims table --markdown` takes it."""
        found = {}
        for c in self.comparisons:
            if not c.void:
                found[c.shape, c.layout] = c
        return sorted(found.values(), key=lambda c: (shape_key(c.shape), c.layout))

    def runs_of(self, prediction):
        return [run for run in self.runs if run.prediction is prediction]

    def runs_in_force(self):
        """Every profile of a prediction that nothing has replaced."""
        return [run for run in self.runs if "replaced_by" not in run.prediction]

    def flops(self, prediction):
        """As the fma or the tensor term states them, whichever is more, by this prediction or another of the
        same shape; None where none does."""
        same = [p for p in self.predictions if p["shape"] == prediction["shape"]]
        for p in [prediction, *same]:
            stated = []
            for term in p["terms"]:
                match = re.search(
                    r"flops\s*=\s*([\d.]+(?:e[+-]?\d+)?)|([\d.]+(?:e[+-]?\d+)?)\s*flops",
                    term["formula"],
                    re.I,
                )
                if term["name"] in ("fma", "tensor") and match:
                    stated.append((float(match[1] or match[2]), term["name"]))
            if stated and max(stated)[0] > 0:
                return max(stated)
        return None

    def counts(self):
        """{claim: {verdict: count}}; a prediction counts by its latest profile."""
        table = {claim: collections.Counter() for claim in ("correct", "fast", "understood")}
        for p in (self.verify or {"problems": []})["problems"]:
            table["correct"]["CONFIRMED" if p["passed"] else "REFUTED"] += 1
        for c in self.comparisons:
            for name in [*c.baselines, FLOOR]:
                table["fast"][c.verdict(name)] += 1
        for p in self.predictions:
            runs = self.runs_of(p)
            table["understood"][runs[-1].problem["verdict"] if runs else "not profiled"] += 1
        return table

    def losses(self):
        found = [*self._wrong(), *self._mispredicted(), *self._slower()]
        return sorted(found, key=lambda loss: (loss.rank, bool(loss.since)))

    def _wrong(self):
        for p in (self.verify or {"problems": []})["problems"]:
            if not p["passed"]:
                bad = [o for o in p["outputs"] if o["failures"] or o["ratio"] > 1]
                numbers = "; ".join(
                    f"{o['output']}: {o['failures']} of {o['count']} wrong, error/bound {o['ratio']:g}"
                    for o in bad
                )
                yield Loss(
                    0,
                    "REFUTED",
                    f"correct ({p['suite']})",
                    short(p["shape"], p["layout"]),
                    numbers,
                    p["fault"] or "an output is outside its tolerance",
                    [self.verify.path],
                )

    def _mispredicted(self):
        for run in self.runs:
            problem, prediction = run.problem, run.prediction
            if problem["verdict"] == "CONFIRMED":
                continue
            worst = [v for v in problem["verdicts"] if v["verdict"] == problem["verdict"]]
            units = {c["metric"]: c["unit"] for c in prediction["counters"]} | {"time": "µs"}
            numbers = "; ".join(
                f"{v['claim']}: {readable(v['observed'], units[v['claim']])}, predicted "
                f"{readable(v['low'], units[v['claim']])} to {readable(v['high'], units[v['claim']])}"
                for v in worst
                if v["claim"] in units
            )
            why = "; ".join(v["why"] for v in worst if v["why"])
            for word, text in (("story", problem["story"]), ("next", problem["next"])):
                if text and not any(
                    v["why"] and v["why"] in text for v in worst
                ):  # else the story is that reason
                    why += f"{'; ' if why else ''}{word}: {text}"
            later = prediction.get("replaced_by")
            yield Loss(
                {"REFUTED": 1, "INVALID": 4, "INCONCLUSIVE": 6}[problem["verdict"]],
                problem["verdict"],
                f"understood, prediction {prediction['n']}",
                short(prediction["shape"], prediction["layout"]),
                numbers,
                why,
                [run.profile.path, prediction.path],
                f"replaced by prediction {later['n']}" if later else "",
            )

    def _slower(self):
        newest = {}
        for c in self.comparisons:
            if not c.void:
                newest[c.shape, c.layout] = c
        for c in self.comparisons:
            later = newest.get((c.shape, c.layout))
            since = (
                "" if later is c or later is None else f"measured again in session {later.session['session']}"
            )
            where, records = short(c.shape, c.layout), [c.session.path]
            if c.void:
                yield Loss(
                    5,
                    "INVALID",
                    "fast, comparison void",
                    where,
                    f"capstone / its A/A twin {band(c.arms[TWIN]['speedup'])}",
                    "the A/A interval lies outside 1 ± 0.5 %: nothing is claimed from it",
                    records,
                    since,
                )
                continue
            for name in c.baselines:
                verdict = c.verdict(name)
                if verdict != "CONFIRMED":
                    why = (
                        "slower than the baseline"
                        if verdict == "REFUTED"
                        else (
                            "the host's times claim nothing"
                            if c.fields["timing"]["timer"] == HOST_TIMER
                            else "no faster by more than the A/A twin strayed"
                        )
                    )
                    yield Loss(
                        2 if verdict == "REFUTED" else 7,
                        verdict,
                        f"fast, against {name}",
                        where,
                        f"{name} / capstone {band(c.arms[name]['speedup'])}",
                        why,
                        records,
                        since,
                    )
            verdict, target = c.verdict(FLOOR), c.target()
            if verdict != "CONFIRMED":
                why = (
                    "no target below 67 MB moved"
                    if target is None
                    else (
                        f"the target is {target}"
                        if verdict == "REFUTED"
                        else f"the band includes the target, {target}"
                    )
                )
                if c.fields["timing"]["timer"] == HOST_TIMER:
                    why = "the host's times claim nothing"
                yield Loss(
                    3 if verdict == "REFUTED" else 8 if target is None else 7,
                    verdict,
                    "fast, against the floor",
                    where,
                    f"capstone / floor {band(c.fields['floor_target'])}",
                    why,
                    records,
                    since,
                )


def kernels_of(device):
    """Every kernel and dtype with a record: those with most against them first, then those with most on
    record."""
    names = {(r["kernel"], r["dtype"]) for r in [*device.verify, *device.predictions, *device.timelines]}
    names |= {(c["kernel"], c["dtype"]) for s in device.sessions for c in s["comparisons"]}
    found = [Kernel(device, *name) for name in sorted(names)]
    return sorted(
        found,
        key=lambda k: (
            -sum(loss.is_refuted() for loss in k.losses()),
            -len(k.predictions),
            -len(k.comparisons),
        ),
    )


# ---- accuracy ------------------------------------------------------------------------------------
def accuracy(runs):
    """What became of the intervals: {inside, judged, metrics: {unit: (inside, judged, median half-width)}}.
    An interval whose metric gave no number counts as not inside."""
    groups = collections.defaultdict(list)
    for run in runs:
        for counter in run.prediction["counters"]:
            value = run.measured(counter["metric"])
            inside = value is not None and counter["low"] <= value <= counter["high"]
            half = (counter["high"] - counter["low"]) / 2 / counter["value"] if counter["value"] else None
            groups[counter["unit"]].append((inside, half))
        t, measured = run.prediction["time_us"], run.problem["time_us"]["median"]
        groups["time"].append(
            (
                measured > 0 and t["low"] <= measured <= t["high"],
                (t["high"] - t["low"]) / 2 / t["expected"] if t["expected"] else None,
            )
        )
    table = {}
    for unit, items in sorted(groups.items()):
        halves = [half for _, half in items if half is not None]
        table[unit] = (
            sum(inside for inside, _ in items),
            len(items),
            statistics.median(halves) if halves else None,
        )
    return table


def bytes_of(level, read):
    """Bytes at a level, "dram" or "l2", from `read(metric)`, which gives a number or a tuple; None without
    them."""
    total, parts, unit = {
        "dram": ("dram__bytes.sum", ("dram__bytes_read.sum", "dram__bytes_write.sum"), 1),
        "l2": (
            "lts__t_sectors_srcunit_tex.sum",
            ("lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_srcunit_tex_op_write.sum"),
            SECTOR_BYTES,
        ),
    }[level]
    found = [read(total)]
    if found[0] is None:
        found = [read(part) for part in parts]
    if any(value is None for value in found):
        return None
    if isinstance(found[0], tuple):
        return tuple(unit * sum(column) for column in zip(*found))
    return unit * sum(found)


# ---- numbers as text -----------------------------------------------------------------------------
def exact(value):
    """As a record spells it: from 1 up with 4 decimals, below with 4 significant digits, no trailing
    zeros."""
    if isinstance(value, int):
        return str(value)
    text = f"{value:.4f}" if abs(value) >= 1 else f"{value:.4g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def band(fields, digits=3):
    """1.031 [1.029, 1.033]"""
    return f"{fields['median']:.{digits}f} [{fields['low']:.{digits}f}, {fields['high']:.{digits}f}]"


def micros(value):
    """A time in microseconds with four significant digits."""
    return f"{value:.4g}" if abs(value) < 10000 else f"{value:.0f}"


def readable(value, unit):
    """A counter's number for people; the tables of a prediction's claims have the record's own."""
    if unit == "byte":
        return size(value)
    if unit in ("sector", "inst", "cycle"):
        return f"{value:,.0f} {unit}s" if unit != "inst" else f"{value:,.0f} instructions"
    return f"{micros(value)} {unit}".strip()


def size(value):
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value:g} B"
