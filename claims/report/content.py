# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The pages' contents: one page a kernel and dtype, what speaks against it first, and an index."""

import pathlib
from itertools import zip_longest

import figures
import model
import palette
from blocks import Cell, Details, Figure, Page, Records, Section, Table, Text, cells
from model import band, exact, micros, short

NOT_PROFILED = "not profiled"
HOST_NOTE = "These are a self-test on the host: its times claim nothing."


SIGNS = "Signs: " + ", ".join(f"{sign} {verdict}" for verdict, (_, _, sign) in palette.VERDICTS.items()) + "."


def plural(count, word):
    return f"{count} {word}{'' if count == 1 else 's'}"


def kind_of(baseline):
    return "unfused" if model.is_unfused(baseline) else "fused"


def unique(items):
    return list(dict.fromkeys(items))


def draw(function, name, label, caption, records, *arguments):
    """The figure in both widths, or None where there is nothing to draw."""
    wide = function(*arguments, figures.WIDE)
    if wide is None:
        return None
    wide, narrow = figures.to_svg(wide), figures.to_svg(function(*arguments, figures.NARROW))
    return Figure(
        name,
        caption,
        figures.labelled(wide, name + "-w", label),
        figures.labelled(narrow, name + "-n", label),
        figures.labelled(wide, name, label, alone=True),
        unique(records),
    )


# ---- a kernel's page -----------------------------------------------------------------------------
def losses_section(kernel):
    losses = kernel.losses()
    rows, loud = [], []
    for i, loss in enumerate(losses):
        if loss.is_refuted():
            loud.append(i)
        why = loss.why + (f" ({loss.since})" if loss.since else "")
        rows.append(
            cells(Cell("", loss.verdict), loss.claim, loss.shape, loss.numbers, why, Cell(links=loss.records))
        )
    counts = kernel.counts()
    refuted = sum(counts[claim]["REFUTED"] for claim in counts)
    judged = sum(n for claim in counts for verdict, n in counts[claim].items() if verdict != NOT_PROFILED)
    text = f"{refuted} of {plural(judged, 'claim')} on record {'is' if refuted == 1 else 'are'} refuted."
    if losses:
        text += " In the order: refuted, lost races, missed targets, invalid and void, inconclusive."
    blocks = [Text(text)]
    if rows:
        blocks.append(Table(["verdict", "claim", "shape", "numbers", "why", "record"], rows, loud=loud))
    unseen = [
        short(p["shape"], p["layout"])
        for p in kernel.predictions
        if "replaced_by" not in p and not kernel.runs_of(p)
    ]
    if unseen:
        blocks.append(Text("Predicted, not profiled: " + ", ".join(unseen) + "."))
    if not kernel.predictions:
        blocks.append(Text("There is no prediction: not profiled."))
    if not kernel.comparisons:
        blocks.append(Text("It was not raced: no session has it."))
    if kernel.verify is None:
        blocks.append(Text("There is no record of its correctness."))
    return Section("against", "What speaks against it", blocks)


def sentences_section(kernel, sentences):
    title = "The claim of speed"
    if sentences is None:
        return Section(
            "speed",
            title,
            [
                Text(
                    "Left out: the sentences come from `claims table --sentences`, and no file "
                    "of them was given."
                )
            ],
        )
    wanted = (kernel.device.id, kernel.name, kernel.dtype)
    own = [s for s in sentences if (s["device"], s["kernel"], s["dtype"]) == wanted]
    if not own:
        return Section("speed", title, [Text("No sentence is claimed for it.")])
    fused = [s["sentence"] for s in own if s["kind"] == "fused"]
    unfused = [s["sentence"] for s in own if s["kind"] == "unfused"]
    rows = [cells(a or "", b or "") for a, b in zip_longest(fused, unfused)]
    return Section("speed", title, [Table(["over an already fused baseline", "over an unfused one"], rows)])


def races_section(kernel):
    latest = kernel.latest()
    if not latest:
        return Section(
            "races", "Races", [Text("Not raced." if not kernel.comparisons else "Every comparison was void.")]
        )
    names = unique(name for c in latest for name in c.baselines)
    names.sort(key=model.is_unfused)  # fused first; both kinds stand side by side
    rows, loud = [], []
    for i, c in enumerate(
        sorted(latest, key=lambda c: all(c.verdict(n) != "REFUTED" for n in [*c.baselines, "floor"]))
    ):
        own = c.arms[model.OWN]
        row = cells(
            short(c.shape, c.layout) + (" (held out)" if kernel.is_held_out(c.shape, c.layout) else ""),
            f"{micros(own['ms'] * 1e3)} [{micros(own['low'] * 1e3)}, {micros(own['high'] * 1e3)}]",
            Cell(band(c.fields["floor_target"]), c.verdict("floor"), brief=True),
        )
        row += [
            Cell(band(c.arms[n]["speedup"]), c.verdict(n), brief=True) if n in c.arms else Cell()
            for n in names
        ]
        rows.append(row)
        if any(c.verdict(n) == "REFUTED" for n in [*c.baselines, "floor"]):
            loud.append(i)
    columns = ["shape", "capstone, µs", "capstone / floor"]
    columns += [f"over {name}" + ("" if "fused" in name else f" ({kind_of(name)})") for name in names]
    summary = []
    for name in names:
        for held_out in (False, True):
            raced = [
                c for c in latest if name in c.arms and kernel.is_held_out(c.shape, c.layout) == held_out
            ]
            if not raced:
                continue
            verdicts = [c.verdict(name) for c in raced]
            worst = min(raced, key=lambda c: c.arms[name]["speedup"]["median"])
            best = max(raced, key=lambda c: c.arms[name]["speedup"]["median"])
            summary.append(
                cells(
                    name,
                    kind_of(name),
                    "held out" if held_out else "tuned on",
                    len(raced),
                    verdicts.count("REFUTED"),
                    verdicts.count("INCONCLUSIVE"),
                    verdicts.count("CONFIRMED"),
                    f"{band(worst.arms[name]['speedup'])} at {short(worst.shape)}",
                    f"{band(best.arms[name]['speedup'])} at {short(best.shape)}",
                )
            )
    sessions = unique(c.session.path for c in latest)
    blocks = [
        Text(
            "The latest valid comparison of each shape. A gain is baseline / capstone, the "
            "median of the rounds' "
            "ratios with its band; above 1 capstone is the faster. The floor is the best plain "
            "streaming kernel "
            "for the same bytes, in the same session. " + SIGNS
        ),
        Table(
            ["baseline", "kind", "shapes", "raced", "losses", "ties", "wins", "least gain", "largest gain"],
            summary,
            numeric=6,
        ),
        Table(columns, rows, numeric=len(columns) - 1, loud=loud),
        draw(
            figures.time_over_floor,
            "floor",
            f"Time over the floor by shape, {kernel.title}",
            "Time over the floor, by shape: medians with the band of the median, both over the "
            "floor's median of "
            "the same comparison. At 1 lies the floor.",
            sessions,
            kernel,
        ),
    ]
    return Section("races", "Races: time over the floor and gains", blocks)


def roofline_section(kernel):
    drawn = figures.roofline_points(kernel)
    in_force = [p for p in kernel.predictions if "replaced_by" not in p]
    if not kernel.predictions:
        return Section("roofline", "Roofline", [Text("No prediction: not profiled.")])
    blocks = []
    if kernel.device.ceilings is None:
        blocks.append(Text("The device's ceilings were not measured: no roof to draw."))
    records = [kernel.device.ceilings.path] if kernel.device.ceilings else []
    for p in in_force:
        records += [p.path, *(run.profile.path for run in kernel.runs_of(p)[-1:])]
    blocks.append(
        draw(
            figures.roofline,
            "roofline",
            f"Roofline at DRAM and L2, {kernel.title}",
            "Hierarchical roofline: at each level the flops per byte that cross it. Roofs as calibrated on "
            "this device, not from a data sheet. Boxes: the predicted intervals of bytes and time.",
            records,
            kernel,
        )
    )
    if len(drawn) < len(in_force):
        blocks.append(
            Text(
                f"{plural(len(in_force) - len(drawn), 'prediction')} in force state no flops (a model of "
                "memory only) and are not on it."
            )
        )
    rows = []
    for p in drawn:
        for level in ("dram", "l2"):
            predicted, measured = p[level]
            if predicted is None:
                continue
            t = p["time"]
            rows.append(
                cells(
                    p["shape"],
                    level.upper(),
                    exact(p["flops"]),
                    f"{p['flops'] / predicted[0]:.4g}",
                    f"{p['flops'] / t['expected'] / 1e6:.4g} [{p['flops'] / t['high'] / 1e6:.4g}, "
                    f"{p['flops'] / t['low'] / 1e6:.4g}]",
                    (
                        f"{p['flops'] / measured:.4g}"
                        if measured
                        else NOT_PROFILED if p["measured_us"] is None else "no bytes"
                    ),
                    f"{p['flops'] / p['measured_us'] / 1e6:.4g}" if p["measured_us"] else NOT_PROFILED,
                )
            )
    if rows:
        blocks.append(
            Details(
                "The points as numbers",
                [
                    Table(
                        [
                            "shape",
                            "level",
                            "flops",
                            "flops/byte, predicted",
                            "TFLOP/s, predicted",
                            "flops/byte, measured",
                            "TFLOP/s, measured",
                        ],
                        rows,
                        numeric=5,
                    )
                ],
            )
        )
    return Section("roofline", "Roofline", blocks)


def share_and_spread(lane):
    """The share of the window that is shown and, where several were traced, the range of theirs."""
    text, windows = figures.share(lane["launch_share"]), lane.get("shares")
    return f"{text} [{figures.share(min(windows))}, {figures.share(max(windows))}]" if windows else text


def timeline_section(kernel):
    if not kernel.timelines:
        return Section("timeline", "Timeline", [Text("No timeline is on record.")])
    blocks = [
        Text(
            "Host launches above, kernels below, on one scale for all lanes of a problem. Tracing slows "
            "launches: "
            "the gaps are an upper bound, the time a call is untraced."
        )
    ]
    for i, t in enumerate(kernel.timelines):
        where = short(t["shape"], t["layout"])
        records = [t.path, *([t["trace"]] if t["trace"] else [])]
        blocks.append(
            draw(
                figures.timeline,
                f"timeline-{i + 1}",
                f"Timeline of {kernel.title}, {where}",
                f"{where}: the first {exact(round(figures.timeline_span(t), 1))} µs of the window. "
                f"Traced by {figures.tracer(t, version=True)}."
                + (" The second record is a Chrome trace for a trace viewer." if t["trace"] else ""),
                records,
                t,
            )
        )
        rows = [
            cells(
                lane["name"],
                exact(lane["calls"]),
                exact(lane["kernels_per_call"]),
                exact(lane["kernel_us"]),
                exact(lane["api_us_per_call"]),
                exact(lane["wall_us_per_call"]),
                exact(lane["window_us"]),
                exact(lane["busy_us"]),
                exact(lane["gap_us"]),
                share_and_spread(lane),
            )
            for lane in t["lanes"]
        ]
        blocks.append(
            Table(
                [
                    "lane",
                    "calls",
                    "kernels a call",
                    "kernel, µs",
                    "launch API a call, µs",
                    "untraced a call, µs",
                    "window, µs",
                    "busy, µs",
                    "gap, µs",
                    "launch and gap",
                ],
                rows,
                numeric=9,
            )
        )
    return Section("timeline", "Timeline", blocks)


UNIT_NAMES = {"byte": "bytes", "sector": "L2 sectors", "inst": "instructions", "%": "percentages"}


def accuracy_section(kernel):
    runs = kernel.runs_in_force()
    if not runs:
        return Section(
            "accuracy",
            "Accuracy of the predictions",
            [Text("No prediction in force was profiled: " "not profiled.")],
        )
    tuned, held_out = (
        [r for r in runs if kernel.is_held_out(r.prediction["shape"], r.prediction["layout"]) == is_out]
        for is_out in (False, True)
    )
    blocks, rows = [], []
    for title, group in (
        ("shapes tuned on", tuned),
        ("held-out shapes", held_out),
        ("all ever profiled, replaced ones too", kernel.runs),
    ):
        if not group:
            rows.append(cells(title, "none profiled", "", "", ""))
        table = model.accuracy(group)
        if group:
            inside, judged = (sum(column) for column in list(zip(*table.values()))[:2])
            rows.append(cells(title, "all", inside, judged, ""))
            rows[-1][2:4] = cells(f"{inside} of {judged}", f"{100 * inside / judged:.1f} %")
        for unit, (inside, judged, half) in table.items():
            rows.append(
                cells(
                    title,
                    UNIT_NAMES.get(unit, unit or "no unit"),
                    f"{inside} of {judged}",
                    f"{100 * inside / judged:.1f} %",
                    f"± {100 * half:.3g} %" if half is not None else "zero was predicted",
                )
            )
    blocks.append(
        Table(["predictions", "of", "inside", "share inside", "median half-width"], rows, numeric=3)
    )
    for group, is_out in ((tuned, False), (held_out, True)):
        records = [path for r in group for path in (r.prediction.path, r.profile.path)]
        blocks.append(
            draw(
                lambda width, is_out=is_out: figures.accuracy(kernel, width, is_out),
                "held-out" if is_out else "accuracy",
                f"Predicted intervals and measured counters, {kernel.title}",
                ("Held-out shapes" if is_out else "Shapes tuned on") + ": a strip a metric, a row a shape; "
                "the interval as predicted, the median of the launches with the least and the largest, over "
                "the predicted value.",
                records,
            )
        )
    return Section("accuracy", "Accuracy of the predictions", blocks)


def predictions_section(kernel):
    if not kernel.predictions:
        return Section("predictions", "Predictions and their verdicts", [Text("There is none.")])
    rows, loud, details = [], [], []
    for p in kernel.predictions:
        later, before = p.get("replaced_by"), p.get("replaces")
        state = ""
        if later:
            state = f"replaced by prediction {later['n']}: {later['why']}"
        elif before:
            state = f"replaces prediction {before['n']}: {p['why']}"
        elif p["why"]:
            state = p["why"]
        t = p["time_us"]
        marks = ["held out"] if kernel.is_held_out(p["shape"], p["layout"]) else []
        marks += [p["model"]] if p["model"] != "full" else []
        state = "; ".join([*marks, *([state] if state else [])])
        start = [
            short(p["shape"], p["layout"]),
            str(p["n"]),
            state,
            f"{micros(t['expected'])} [{micros(t['low'])}, " f"{micros(t['high'])}]",
        ]
        binding = f"{p['binding']['term']}, {exact(p['binding']['margin'])} × {p['binding']['second']}"
        runs = kernel.runs_of(p)
        for run in runs:
            problem = run.problem
            if problem["verdict"] == "REFUTED" and not later:
                loud.append(len(rows))
            story = problem["story"] + (f"; next: {problem['next']}" if problem["next"] else "")
            rows.append(
                cells(
                    Cell("", problem["verdict"]),
                    *start,
                    micros(problem["time_us"]["median"]) if problem["time_us"]["median"] else "none",
                    binding,
                    p["prior_profiles"],
                    story,
                    Cell(links=[p.path, run.profile.path]),
                )
            )
            details.append(counters_of(run))
        if not runs:
            rows.append(
                cells(NOT_PROFILED, *start, "", binding, p["prior_profiles"], "", Cell(links=[p.path]))
            )
    blocks = [
        Text(
            "Each was written and committed before the profiler ran. A replaced one stays, marked with what "
            "replaced it."
        ),
        Table(
            [
                "verdict",
                "shape",
                "n",
                "state",
                "time predicted, µs",
                "measured, µs",
                "binding, margin",
                "earlier profiles",
                "story and next",
                "records",
            ],
            rows,
            loud=loud,
        ),
    ]
    return Section("predictions", "Predictions and their verdicts", blocks + details)


def counters_of(run):
    """Every claim of a prediction with what was seen."""
    p, rows, loud = run.prediction, [], []
    formulas = {c["metric"]: c["formula"] for c in p["counters"]}
    values = {c["metric"]: c["value"] for c in p["counters"]} | {"time": p["time_us"]["expected"]}
    for i, v in enumerate(run.problem["verdicts"]):
        if v["verdict"] == "REFUTED":
            loud.append(i)
        launches = run.values(v["claim"])
        rows.append(
            cells(
                Cell("", v["verdict"]),
                v["claim"],
                exact(values[v["claim"]]) if v["claim"] in values else "",
                exact(v["low"]),
                exact(v["high"]),
                exact(v["observed"]),
                f"{exact(min(launches))} to {exact(max(launches))}" if launches else "",
                v["why"],
                formulas.get(v["claim"], ""),
            )
        )
    later = p.get("replaced_by")
    blocks = [
        Table(
            ["verdict", "claim", "predicted", "low", "high", "observed", "launches", "why", "formula"],
            rows,
            loud=loud,
        )
    ]
    for fault in run.problem["faults"]:
        blocks.append(Text(fault))
    blocks.append(
        Table(["term", "µs", "formula"], [cells(t["name"], exact(t["us"]), t["formula"]) for t in p["terms"]])
    )
    blocks.append(
        Table(
            ["rival story", "what it says", "excluded by"],
            [cells(r["name"], r["story"], ", ".join(r["excluded_by"])) for r in p["rivals"]],
        )
    )
    return Details(
        f"{short(p['shape'], p['layout'])}, prediction {p['n']}: {run.problem['verdict']}, "
        f"{plural(len(rows), 'claim')}" + (f"; replaced by prediction {later['n']}" if later else ""),
        blocks,
    )


def correctness_section(kernel):
    if kernel.verify is None:
        return Section("correct", "Correct", [Text("Not verified.")])
    suites = {}
    for p in kernel.verify["problems"]:
        suites.setdefault(p["suite"], []).append(p)
    rows = []
    for suite, problems in suites.items():
        outputs = [(o["ratio"], short(p["shape"], p["layout"])) for p in problems for o in p["outputs"]]
        worst, where = max(outputs, default=(0, ""))
        rows.append(
            cells(
                suite,
                len(problems),
                sum(not p["passed"] for p in problems),
                f"{exact(worst)} at {where}" if outputs else "",
            )
        )
    return Section(
        "correct",
        "Correct",
        [
            Text(
                "Compared with a float64 reference. The tolerance follows from the order of "
                "accumulation; an error over "
                "its bound of 1 is the most that is allowed."
            ),
            Table(["suite", "problems", "failed", "largest error / bound"], rows, numeric=3),
        ],
    )


def records_section(kernel):
    items = [
        (
            p.path,
            f"prediction {p['n']} of {short(p['shape'], p['layout'])}, {p['date']}"
            + (f", replaced by {p['replaced_by']['n']}" if "replaced_by" in p else ""),
        )
        for p in kernel.predictions
    ]
    items += [(path, "profile") for path in unique(r.profile.path for r in kernel.runs)]
    items += [(path, "session") for path in unique(c.session.path for c in kernel.comparisons)]
    for t in kernel.timelines:
        items += [(t.path, "timeline")] + ([(t["trace"], "Chrome trace")] if t["trace"] else [])
    if kernel.verify:
        items.append(
            (kernel.verify.path, f"verified, {kernel.verify['date']}, commit {kernel.verify['commit'][:12]}")
        )
    if kernel.device.ceilings:
        items.append((kernel.device.ceilings.path, "ceilings of the device"))
    return Section(
        "records",
        "Records",
        [Text("All records of this page; the tables above link to them by their kind."), Records(items)],
    )


def page_path(kernel):
    return pathlib.PurePosixPath(kernel.device.id) / f"{kernel.name}.{kernel.dtype}"


def kernel_page(kernel, sentences):
    device = kernel.device.describe()
    sections = [
        losses_section(kernel),
        sentences_section(kernel, sentences),
        races_section(kernel),
        roofline_section(kernel),
        timeline_section(kernel),
        accuracy_section(kernel),
        predictions_section(kernel),
        correctness_section(kernel),
        records_section(kernel),
    ]
    for section in sections:
        section.blocks = [b for b in section.blocks if b is not None]
    subtitle = f"{device['name']} ({kernel.device.id}); {kernel.rounding or 'rounding not on record'}."
    if kernel.device.id == "host":
        subtitle += " " + HOST_NOTE
    return Page(
        page_path(kernel),
        f"{kernel.name}, {kernel.dtype}",
        subtitle,
        sections,
        [("all kernels", pathlib.PurePosixPath("index"))],
    )


# ---- the index -----------------------------------------------------------------------------------
def index_page(devices):
    sections = []
    for device, kernels in devices:
        sections += [device_losses(device, kernels), device_counts(device, kernels), device_ceilings(device)]
    return Page(
        pathlib.PurePosixPath("index"),
        "What is claimed, and what became of it",
        "Three claims a kernel: correct, fast, understood (its bottleneck predicted before the "
        "profiler ran). "
        "What speaks against us comes first.",
        sections,
    )


def device_losses(device, kernels):
    found = [(kernel, loss) for kernel in kernels for loss in kernel.losses()]
    found = sorted(
        (item for item in found if item[1].rank < 7), key=lambda item: (item[1].rank, bool(item[1].since))
    )
    rows = [
        cells(
            Cell("", loss.verdict),
            Cell(kernel.title, href=str(page_path(kernel))),
            loss.claim,
            loss.shape,
            loss.numbers,
            loss.why + (f" ({loss.since})" if loss.since else ""),
            Cell(links=loss.records),
        )
        for kernel, loss in found
    ]
    text = Text(
        "Refuted claims, lost races, missed targets, invalid and inconclusive predictions, void comparisons. "
        "Undecided races are on the kernels' pages."
    )
    if not rows:
        return Section(
            f"{device.id}-against",
            f"{device.id}: what speaks against us",
            [Text("Nothing is refuted, void, invalid or lost.")],
        )
    return Section(
        f"{device.id}-against",
        f"{device.id}: what speaks against us",
        [
            text,
            Table(
                ["verdict", "kernel", "claim", "shape", "numbers", "why", "record"],
                rows,
                loud=[i for i, (_, loss) in enumerate(found) if loss.is_refuted()],
            ),
        ],
    )


def device_counts(device, kernels):
    rows, loud = [], []
    verdicts = ("REFUTED", "INVALID", "INCONCLUSIVE", "CONFIRMED", NOT_PROFILED)
    totals = {claim: dict.fromkeys(verdicts, 0) for claim in ("correct", "fast", "understood")}
    for kernel in kernels:
        counts, row = kernel.counts(), cells(Cell(kernel.title, href=str(page_path(kernel))))
        for claim, by_verdict in counts.items():
            for verdict in verdicts:
                totals[claim][verdict] += by_verdict[verdict]
            row.append(
                Cell(tally(by_verdict) or (NOT_PROFILED if claim == "understood" else "none on record"))
            )
        if any(loss.is_refuted() for loss in kernel.losses()):
            loud.append(len(rows))
        rows.append(row)
    total = cells("all", *(tally(totals[claim]) or "none on record" for claim in totals))
    blocks = [
        Text(
            f"{plural(len(kernels), 'kernel')} (a dtype each), {plural(len(device.sessions), 'session')}, "
            f"{plural(len(device.predictions), 'prediction')}, {plural(len(device.profiles), 'profile')}, "
            f"{plural(len(device.timelines), 'timeline')}."
        )
    ]
    if device.id == "host":
        blocks.append(Text(HOST_NOTE))
    blocks.append(Table(["kernel", "correct", "fast", "understood"], [*rows, total], loud=loud))
    return Section(f"{device.id}-kernels", f"{device.id}: kernels", blocks)


def tally(counts):
    words = [
        f"{counts[v]} {v.lower()}"
        for v in ("REFUTED", "INVALID", "INCONCLUSIVE", "CONFIRMED", NOT_PROFILED)
        if counts.get(v)
    ]
    return ", ".join(words)


def device_ceilings(device):
    fields = device.describe()
    name = f"{device.id}: ceilings"
    if device.ceilings is None:
        return Section(f"{device.id}-ceilings", name, [Text("Not measured.")])
    c = device.ceilings
    rows = [
        cells(
            "fixed cost and rate, " + f"{f['reads']} read : {f['writes']} write",
            f"{exact(f['fixed_us'])} µs + bytes / {exact(f['gb_per_s'])} GB/s",
            f"worst residual {100 * f['worst_residual']:.2g} %",
        )
        for f in c["fits"]
    ]
    rows += [
        cells(
            "L2", f"{exact(c['l2']['plateau_gb_per_s'])} GB/s", f"up to {model.size(c['l2']['edge_bytes'])}"
        )
    ]
    for key, title, unit in (
        ("fma_tflops", "FMA, float32", "TFLOP/s"),
        ("special_gops", "special functions", "Gop/s"),
        ("tensor_bf16_tflops", "tensor cores, bf16", "TFLOP/s"),
    ):
        r = c["rates"][key]
        rows.append(
            cells(title, f"{exact(figures.rate(c, key))} {unit}", f"[{exact(r['low'])}, {exact(r['high'])}]")
        )
    for key, title in (
        ("stream_us", "launch on a stream"),
        ("graph_node_us", "node of a graph"),
        ("empty_kernel_us", "empty kernel"),
    ):
        rows.append(cells(title, f"{exact(c['launch'][key])} µs", ""))
    rows += [
        cells("dependent load from DRAM", f"{exact(c['chain_us']['load'])} µs", ""),
        cells("reduction of a block", f"{exact(c['chain_us']['reduce'])} µs", ""),
    ]
    if c.get("counters"):
        residue = c["counters"]["residue_bytes"]
        rows.append(
            cells(
                "written, but still in L2 at a kernel's end",
                model.size(residue["median"]),
                f"[{model.size(residue['low'])}, {model.size(residue['high'])}]; ncu {c['counters']['ncu']}",
            )
        )
    else:
        rows.append(cells("counters", "not measured", c.get("why_no_counters") or ""))
    return Section(
        f"{device.id}-ceilings",
        name,
        [
            Text(f"Measured on {fields['name']}, driver {fields.get('driver', 'unknown')}, {c['date']}."),
            Table(["ceiling", "value", "remark"], rows),
            Records([(c.path, "ceilings")]),
        ],
    )
