# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The figures, drawn with matplotlib and rewritten into SVG that follows the page: text stays text, in the
reader's font; black becomes currentColor and the greys the page's own colours, so that light and dark both
work. One unit of an SVG is one CSS pixel. Every function takes the width in pixels; two widths of each figure
go into a page.
"""

import html
import io
import math
import re
import statistics
import textwrap

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "capstone",
        "font.size": 11.5,
        "font.family": "DejaVu Sans",
        "figure.dpi": 72,
        "savefig.dpi": 72,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.linewidth": 0.7,
        "axes.linewidth": 0.8,
        "axes.titlesize": 11.5,
        "axes.titlelocation": "left",
        "legend.frameon": False,
        "legend.fontsize": 11,
        "legend.handletextpad": 0.3,
        "legend.columnspacing": 1.0,
        "text.parse_math": False,
        "axes.formatter.useoffset": False,
    }
)
import matplotlib.pyplot as plt  # noqa: E402  (the backend is chosen above)
from matplotlib.patches import Rectangle  # noqa: E402
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)  # noqa: E402

import model  # noqa: E402
import palette  # noqa: E402

# Placeholders that become the page's colours.
INK, MUTED, LINE, GROUND = "#000000", "#010203", "#010204", "#010205"
THEME = {INK: "currentColor", MUTED: "var(--muted)", LINE: "var(--line)", GROUND: "var(--bg)"}
WIDE, NARROW = 980, 350
ARM_STYLES = [
    (palette.VERMILLION, "s"),
    (palette.GREEN, "^"),
    (palette.ORANGE, "v"),
    (palette.SKY, "P"),
    (palette.PURPLE, "D"),
]
OWN_STYLE = (palette.BLUE, "o")
# Short names of the counters in the strips; the tables name them in full.
METRIC_NAMES = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM throughput, % of peak",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM throughput, % of peak",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": "tensor pipe active, %",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps active, %",
    "dram__bytes.sum": "DRAM bytes",
    "dram__bytes_read.sum": "DRAM bytes read",
    "dram__bytes_write.sum": "DRAM bytes written",
    "lts__t_sectors_srcunit_tex_op_read.sum": "L2 sectors read",
    "lts__t_sectors_srcunit_tex_op_write.sum": "L2 sectors written",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum": "local bytes loaded (spills)",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum": "local bytes stored (spills)",
    "sm__inst_executed.sum": "instructions",
    "sm__inst_executed_pipe_xu.sum": "special-function instructions",
    "time": "time",
}


# ---- the canvas and its SVG ----------------------------------------------------------------------
def canvas(
    width, height, rows=1, columns=1, left=60, right=12, top=26, bottom=40, hgap=60, wgap=60, share=None
):
    """A figure with a grid of axes; all distances in pixels. `share` gives the columns' widths in
    proportion."""
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(width / 72, height / 72),
        squeeze=False,
        gridspec_kw={"width_ratios": share} if share else None,
    )
    inner_w = (width - left - right - (columns - 1) * wgap) / columns
    inner_h = (height - top - bottom - (rows - 1) * hgap) / rows
    figure.subplots_adjust(
        left=left / width,
        right=1 - right / width,
        top=1 - top / height,
        bottom=bottom / height,
        wspace=wgap / inner_w,
        hspace=hgap / inner_h,
    )
    figure.patch.set_visible(False)
    for axis in axes.flat:
        axis.patch.set_visible(False)
        axis.tick_params(length=3, color=MUTED)
        for spine in axis.spines.values():
            spine.set_color(MUTED)
    return figure, axes


def to_svg(figure):
    """The figure as SVG, in placeholders' stead the page's colours."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = stream.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    for colour, themed in THEME.items():
        text = text.replace(colour, themed)
    return text


def labelled(text, name, label, alone=False):
    """An SVG of to_svg with its label. Its ids begin with `name`: several figures share a page. One that
    stands `alone` brings the colours along, and its own ground: an image does not know the page that it lies
    on."""
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text).groups()
    style, ground = "", ""
    if alone:
        rules = [
            ":root{" + ";".join(f"--{k}:{v}" for k, v in colours.items()) + f";color:{colours['text']}" + "}"
            for colours in (palette.LIGHT, palette.DARK)
        ]
        style = f"<style>{rules[0]}@media(prefers-color-scheme:dark){{{rules[1]}}}</style>"
        ground = f'<rect width="{width}" height="{height}" style="fill: var(--bg)"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" fill="currentColor" role="img" '
        f'aria-label="{html.escape(label)}">'
    )
    return head + style + ground + text[text.index(">") + 1 :].rstrip() + "\n"


def legend(figure, handles, columns, top=2):
    """Above the axes, `top` pixels from the upper edge."""
    height = figure.get_figheight() * 72
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, 1 - top / height),
        ncol=columns,
        borderaxespad=0.1,
        labelcolor=INK,
    )


def fitting(handles, width):
    """How many of a legend's entries fit in a row: a letter takes about 6.6 pixels, a mark and its gaps
    40."""
    widest = max(40 + 6.6 * len(handle.get_label()) for handle in handles)
    columns = max(1, int(width // widest))
    return math.ceil(len(handles) / math.ceil(len(handles) / columns))


def mark(colour, marker, label, hollow=False):
    return plt.Line2D(
        [],
        [],
        linestyle="none",
        marker=marker,
        markersize=7,
        label=label,
        markerfacecolor=GROUND if hollow else colour,
        markeredgecolor=colour if hollow else INK,
        markeredgewidth=1.4 if hollow else 0.6,
    )


def plain_log(axis, which, low, high, values=(1, 2, 5)):
    """A logarithmic scale with plain numbers at 1, 2, 5 and their decades."""
    scale, set_limits = (axis.set_xscale, axis.set_xlim) if which == "x" else (axis.set_yscale, axis.set_ylim)
    scale("log")
    set_limits(low, high)
    it = axis.xaxis if which == "x" else axis.yaxis
    it.set_major_locator(LogLocator(subs=values, numticks=100))
    it.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    it.set_minor_formatter(NullFormatter())
    it.set_minor_locator(FixedLocator([]))


def row_axis(axis, labels, rows):
    axis.set_ylim(rows - 0.5, -0.5)
    axis.set_yticks(range(rows), labels)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(axis="y", color=LINE, linewidth=0.6)
    axis.set_axisbelow(True)


# ---- time over the floor -------------------------------------------------------------------------
def time_over_floor(kernel, width):
    """Medians with their bands, over the spread of the rounds where a record has it. The left panel has capstone alone, on a scale where a band can be seen."""
    comparisons = kernel.latest()
    if not comparisons:
        return None
    names = []
    for c in comparisons:
        names += [name for name in c.baselines if name not in names]
    styles = {model.OWN: OWN_STYLE} | {n: ARM_STYLES[i % len(ARM_STYLES)] for i, n in enumerate(names)}
    is_wide, rows = width > 500, len(comparisons)
    panel = rows * 24
    handles = [mark(*styles[name], name) for name in styles]
    columns = fitting(handles, width)
    top = 26 + 17 * math.ceil(len(handles) / columns)
    gap = 66
    figure, axes = canvas(
        width,
        top + bottom_of(2 if not is_wide else 1, panel, gap),
        1 if is_wide else 2,
        2 if is_wide else 1,
        left=112,
        right=14,
        top=top,
        bottom=44,
        hgap=gap,
        wgap=26,
    )
    zoom, every = axes.flat
    labels = [model.short(c.shape, c.layout) for c in comparisons]
    own = [c.over_floor(model.OWN) for c in comparisons]
    # Small calls, which have no target, lie far right; what has one sets the
    # scale, so that its bands can be seen.
    promised = [v for c, point in zip(comparisons, own) if c.target() for v in (*point, c.target())]
    reach = [0.99, 1.06, *promised] if promised else [0.99, 1.06, *(v for point in own for v in point)]
    pad = 0.04 * (max(reach) - min(reach))
    limit = max(reach) + pad
    for axis, arms, offset in ((zoom, [model.OWN], 0), (every, [model.OWN, *names], 0.62)):
        row_axis(axis, labels if axis is zoom or not is_wide else [""] * rows, rows)
        axis.axvline(1, color=INK, linewidth=1)
        for i, c in enumerate(comparisons):
            for k, name in enumerate(arms):
                if name in c.arms:
                    at, low, high = c.over_floor(name)
                    if axis is zoom and at > limit:
                        continue
                    y = i + offset * ((k + 0.5) / len(arms) - 0.5)
                    spread = c.spread_over_floor(name)
                    if spread:  # 5 to 95 % of the rounds thin, the middle half thick
                        for (left, right), thick in (((spread[0], spread[3]), 2.2), ((spread[1], spread[2]), 6)):
                            axis.plot([left, right], [y, y], color=styles[name][0], linewidth=thick, alpha=0.35,
                                      zorder=2, solid_capstyle="butt")
                    axis.plot([low, high], [y, y], color=INK, linewidth=1.3, zorder=3, solid_capstyle="butt")
                    for end in (low, high):
                        axis.plot([end, end], [y - 0.13, y + 0.13], color=INK, linewidth=1.1, zorder=3)
                    axis.plot(
                        [at],
                        [y],
                        marker=styles[name][1],
                        color=styles[name][0],
                        markersize=5.5,
                        markeredgecolor=INK,
                        markeredgewidth=0.5,
                        zorder=2.5,
                    )
    zoom.set_xlim(min(reach) - pad, max(reach) + pad)
    zoom.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    for i, (at, _, _) in enumerate(own):
        if at > limit:
            zoom.plot(
                [max(reach) + 0.5 * pad],
                [i],
                marker=">",
                color=OWN_STYLE[0],
                markeredgecolor=INK,
                markeredgewidth=0.5,
                markersize=7,
            )
            zoom.text(
                max(reach) - 0.4 * pad, i, f"{at:.3f}", va="center", ha="right", color=INK, fontsize=10.5
            )
    for i, c in enumerate(comparisons):
        if c.target():
            zoom.plot([c.target()] * 2, [i - 0.4, i + 0.4], color=palette.VERMILLION, linewidth=1.6, zorder=2)
    zoom.set_title("capstone; the bar in a row is its target")
    everything = [
        v for c in comparisons for name in [model.OWN, *names] if name in c.arms for v in c.over_floor(name)
    ]
    plain_log(every, "x", min(0.9, min(everything) * 0.95), max(everything) * 1.12)
    every.set_title("with the baselines, logarithmic")
    for axis in axes.flat:
        axis.set_xlabel("time / floor")
    legend(figure, handles, columns)
    return figure


def bottom_of(panels, panel, gap):
    """Height of stacked panels of the same height with the room for the last one's axis."""
    return panels * panel + (panels - 1) * gap + 44


# ---- roofline ------------------------------------------------------------------------------------
def roofline_points(kernel):
    """[{shape, verdict, flops, dram and l2: {predicted: (bytes, low, high), measured}, time…}], one a
    prediction in force; those without flops or bytes are left out."""
    points = []
    for p in kernel.predictions:
        stated = kernel.flops(p)
        if "replaced_by" in p or stated is None:
            continue
        counters = {c["metric"]: (c["value"], c["low"], c["high"]) for c in p["counters"]}
        runs = kernel.runs_of(p)
        point = {
            "shape": model.short(p["shape"], p["layout"]),
            "flops": stated[0],
            "pipe": stated[1],
            "time": p["time_us"],
            "verdict": runs[-1].problem["verdict"] if runs else None,
            "measured_us": runs[-1].problem["time_us"]["median"] if runs else None,
        }
        for level in ("dram", "l2"):
            point[level] = (
                model.bytes_of(level, counters.get),
                model.bytes_of(level, runs[-1].measured) if runs else None,
            )
        points.append(point)
    return points


def spread(wanted, gap, low, high):
    """Positions near the wanted ones (ascending), at least `gap` apart, within [low, high] where they fit."""
    places = []
    for at in wanted:
        places.append(max(at, places[-1] + gap if places else low))
    limit = high
    for i in reversed(range(len(places))):
        places[i] = min(places[i], limit)
        limit = places[i] - gap
    return places


def roofline(kernel, width):
    """DRAM and L2, each with its own intensity: flops per byte at that level."""
    ceilings, points = kernel.device.ceilings, roofline_points(kernel)
    if ceilings is None or not points:
        return None
    is_wide = width > 500
    fit = max(ceilings["fits"], key=lambda f: f["gb_per_s"])
    pipe = "tensor" if any(p["pipe"] == "tensor" for p in points) else "fma"
    roof = rate(ceilings, "tensor_bf16_tflops" if pipe == "tensor" else "fma_tflops")
    roof_name = {"tensor": "tensor cores, bf16", "fma": "FMA"}[pipe]
    levels = [
        (
            "dram",
            f"DRAM, {fit['gb_per_s'] / 1e3:.2f} TB/s ({fit['reads']} read : {fit['writes']} write)",
            fit["gb_per_s"],
        ),
        (
            "l2",
            f"L2, {ceilings['l2']['plateau_gb_per_s'] / 1e3:.2f} TB/s",
            ceilings["l2"]["plateau_gb_per_s"],
        ),
    ]
    verdicts = [v for v in palette.VERDICTS if any(p["verdict"] == v for p in points)]
    handles = [mark(INK, "o", "predicted, with its interval", hollow=True)]
    handles += [mark(palette.VERDICTS[v][0], palette.VERDICTS[v][1], f"measured, {v}") for v in verdicts]
    columns = fitting(handles, width)
    top = 30 + 17 * math.ceil(len(handles) / columns)
    panel = max(330, 15 * len(points) + 90)
    figure, axes = canvas(
        width,
        top + bottom_of(1 if is_wide else 2, panel, 70),
        1 if is_wide else 2,
        2 if is_wide else 1,
        left=50,
        right=8,
        top=top,
        bottom=44,
        hgap=70,
        wgap=50,
    )
    for axis, (level, title, bandwidth) in zip(axes.flat, levels):
        drawn = [p for p in points if p[level][0] and p[level][0][0] > 0]
        axis.set_title(title)
        axis.set_xlabel(f"flops per {'DRAM' if level == 'dram' else 'L2'} byte")
        axis.set_ylabel("TFLOP/s", labelpad=2)
        xs, ys = [], []
        for p in drawn:
            p["x"], p["y"] = p["flops"] / p[level][0][0], p["flops"] / p["time"]["expected"] / 1e6
            xs.append(p["x"])
            ys.append(p["y"])
            if p["measured_us"] and p[level][1]:
                xs.append(p["flops"] / p[level][1])
                ys.append(p["flops"] / p["measured_us"] / 1e6)
        left, right = min([*xs, 1]) / 4, max([*xs, 1]) * 60
        low, high = min([*ys, 1]) / 2, roof * 2.2
        plain_log(axis, "x", left, right, (1,))
        plain_log(axis, "y", low, high, (1,))
        knee = roof / (bandwidth / 1e3)
        axis.plot(
            [left, min(knee, right)],
            [left * bandwidth / 1e3, min(knee, right) * bandwidth / 1e3],
            color=INK,
            linewidth=1.8,
        )
        if knee < right:
            axis.plot([knee, right], [roof, roof], color=INK, linewidth=1.8)
        axis.text(left * 1.15, roof * 1.15, f"{roof_name}, {roof:.3g} TFLOP/s", color=MUTED, fontsize=10.5)
        axis.plot([left, min(knee, right)], [roof, roof], color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
        drawn.sort(key=lambda p: p["y"])
        pixel = (math.log(high) - math.log(low)) / panel
        places = spread(
            [math.log(p["y"]) for p in drawn],
            14.5 * pixel,
            math.log(low) + 6 * pixel,
            math.log(max(ys, default=1)) + 24 * pixel,
        )
        edge = max(xs, default=1) * 3.2
        for p, place in zip(drawn, places):
            _, b_low, b_high = p[level][0]
            t_low, t_high = p["time"]["low"], p["time"]["high"]
            box = (p["flops"] / b_high, p["flops"] / t_high / 1e6)
            axis.add_patch(
                Rectangle(
                    box,
                    p["flops"] / max(b_low, 1) - box[0],
                    p["flops"] / t_low / 1e6 - box[1],
                    facecolor="none",
                    edgecolor=INK,
                    linewidth=0.8,
                    zorder=3,
                )
            )
            axis.plot(
                [p["x"]],
                [p["y"]],
                marker="o",
                markerfacecolor=GROUND,
                markeredgecolor=INK,
                markersize=9,
                markeredgewidth=1.2,
                zorder=4,
            )
            if p["measured_us"] and p[level][1]:
                colour, marker, _ = palette.VERDICTS[p["verdict"]]
                axis.plot(
                    [p["flops"] / p[level][1]],
                    [p["flops"] / p["measured_us"] / 1e6],
                    marker=marker,
                    color=colour,
                    markeredgecolor=INK,
                    markeredgewidth=0.5,
                    markersize=5.5,
                    zorder=5,
                )
            axis.plot(
                [p["x"] * 1.25, edge * 0.8, edge * 0.95],
                [p["y"], math.exp(place), math.exp(place)],
                color=LINE,
                linewidth=0.8,
                zorder=1,
            )
            axis.text(edge, math.exp(place), p["shape"], fontsize=10.5, va="center", color=INK)
    legend(figure, handles, columns)
    return figure


def rate(ceilings, name):
    """The value of a calibrated rate."""
    fields = ceilings["rates"][name]
    return fields.get("median") if fields.get("median") is not None else fields["value"]


# ---- timeline ------------------------------------------------------------------------------------
def union(intervals):
    """Sorted [start, end] without overlaps."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def timeline_span(record):
    """Microseconds that every lane has events for; the lanes are drawn up to there, on one scale."""
    return min(
        (
            max(start + duration for start, duration, _ in lane["kernels"])
            for lane in record["lanes"]
            if lane["kernels"]
        ),
        default=0,
    )


def tracer(record, version=False):
    """What traced, and why it was not the tracer before it; records of one window have name and version only."""
    if "source" in record:
        return record["source"]
    by = record["tracer"]
    return by["name"] + (f" {by['version']}" if version else "") + (f"; {by['fallback']}" if by["fallback"] else "")


def timeline(record, width):
    span = timeline_span(record)
    if span <= 0:
        return None
    is_wide, left, right = width > 500, 8, 10
    pixel = span / (width - left - right)  # microseconds
    head, launch_row, kernel_row, gap = (18 if is_wide else 34), 12, 24, 20
    lane_height = head + launch_row + kernel_row + gap
    handles = [
        Rectangle(
            (0, 0), 1, 1, facecolor=palette.ORANGE, edgecolor=INK, linewidth=0.5, label="launch (host)"
        ),
        Rectangle((0, 0), 1, 1, facecolor=palette.BLUE, edgecolor=INK, linewidth=0.5, label="kernel (GPU)"),
        Rectangle(
            (0, 0),
            1,
            1,
            facecolor="none",
            edgecolor=MUTED,
            hatch="////",
            linewidth=0.5,
            label="gap: the GPU idles",
        ),
    ]
    axis_label = ["microseconds; all lanes on this scale"]
    axis_label += textwrap.wrap(f"Traced by {tracer(record)}", (width - left - right) // 7)
    top, bottom = 24, 28 + 14 * len(axis_label)
    figure, axes = canvas(
        width, top + lane_height * len(record["lanes"]) + bottom, left=left, right=right, top=top, bottom=bottom
    )
    axis = axes[0][0]
    axis.set_xlim(0, span)
    axis.set_ylim(lane_height * len(record["lanes"]), 0)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.set_xlabel("\n".join(axis_label))
    for i, lane in enumerate(record["lanes"]):
        y = i * lane_height + 4
        kernels = [(max(0, s), min(s + d, span)) for s, d, _ in lane["kernels"] if s < span and s + d > 0]
        launches = [(max(0, s), min(s + d, span)) for s, d in lane["launches"] if s < span and s + d > 0]
        slivers = sum(end - start < pixel for start, end in kernels)
        per_call = f"{lane['kernels_per_call']:g} kernel{'s' if lane['kernels_per_call'] != 1 else ''} a call"
        first = f"{lane['name']}: {share(lane['launch_share'])} launch and gap"
        second = (
            f"{per_call} of {lane['kernel_us']:.3g} µs, {lane['wall_us_per_call']:.3g} µs a call untraced"
        )
        if slivers:
            second += f"; {slivers} under 1 pixel"
        axis.text(0, y + 10, first, color=INK, fontweight="bold", fontsize=11)
        if is_wide:
            axis.text(span, y + 10, second, color=MUTED, fontsize=10.5, ha="right")
        else:
            axis.text(0, y + 25, second, color=MUTED, fontsize=9.5)
        y += head
        axis.plot([0, span], [y + launch_row + kernel_row] * 2, color=LINE, linewidth=0.8, zorder=1)
        for start, end in launches:
            axis.add_patch(
                Rectangle(
                    (start, y),
                    max(end - start, pixel),
                    launch_row - 2,
                    facecolor=palette.ORANGE,
                    edgecolor=INK if end - start > 4 * pixel else "none",
                    linewidth=0.4,
                    zorder=2,
                )
            )
        at = 0
        for start, end in [*union(kernels), [span, span]]:
            if start - at > pixel:
                axis.add_patch(
                    Rectangle(
                        (at, y + launch_row),
                        start - at,
                        kernel_row,
                        facecolor="none",
                        edgecolor=MUTED,
                        hatch="////",
                        linewidth=0,
                        zorder=1,
                    )
                )
            at = max(at, end)
        for start, end in kernels:
            axis.add_patch(
                Rectangle(
                    (start, y + launch_row),
                    max(end - start, pixel),
                    kernel_row,
                    facecolor=palette.BLUE,
                    edgecolor=INK if end - start > 4 * pixel else "none",
                    linewidth=0.4,
                    zorder=3,
                )
            )
    legend(figure, handles, 3)
    return figure


def share(value):
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.1f} %"


# ---- accuracy ------------------------------------------------------------------------------------
def accuracy(kernel, width, held_out=False):
    """A strip a metric: the predicted interval and the launches, over the predicted value; a row a shape."""
    runs = [
        r
        for r in kernel.runs_in_force()
        if kernel.is_held_out(r.prediction["shape"], r.prediction["layout"]) == held_out
    ]
    metrics = ["time"]
    for run in runs:
        metrics += [c["metric"] for c in run.prediction["counters"] if c["metric"] not in metrics]
    # Of what was predicted to be zero nothing can be over the prediction; the table has those.
    metrics = [m for m in metrics if any((interval(r, m) or (0, 0, 0))[0] > 0 for r in runs)]
    if not runs:
        return None
    columns = 3 if width > 900 else 2 if width > 500 else 1
    rows, panel = math.ceil(len(metrics) / columns), 15 * len(runs) + 6
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=LINE, edgecolor=MUTED, linewidth=0.6, label="predicted interval"),
        mark(palette.VERDICTS["CONFIRMED"][0], "o", "median inside"),
        mark(palette.VERDICTS["REFUTED"][0], "X", "outside"),
    ]
    across = fitting(handles, width)
    top = 34 + 17 * math.ceil(len(handles) / across)
    figure, axes = canvas(
        width,
        top + rows * panel + (rows - 1) * 56 + 40,
        rows,
        columns,
        left=104,
        right=12,
        top=top,
        bottom=40,
        hgap=56,
        wgap=30,
    )
    labels = [model.short(r.prediction["shape"], r.prediction["layout"]) for r in runs]
    for axis in axes.flat[len(metrics) :]:
        axis.set_visible(False)
    for i, (axis, metric) in enumerate(zip(axes.flat, metrics)):
        row_axis(axis, labels if i % columns == 0 else [""] * len(runs), len(runs))
        axis.tick_params(axis="y", labelsize=10)
        axis.set_title(METRIC_NAMES.get(metric, metric), fontsize=11)
        axis.axvline(1, color=MUTED, linewidth=0.8)
        halves = []
        for run in runs:
            it = interval(run, metric)
            if it and it[0] > 0:
                halves += [abs(it[1] / it[0] - 1), abs(it[2] / it[0] - 1)]
        reach = reach_of(halves, 1.8)
        axis.set_xlim(1 - reach, 1 + reach)
        axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.6g}"))
        for y, run in enumerate(runs):
            draw_strip(axis, y, interval(run, metric), seen(run, metric), reach)
    for axis in axes.flat[max(0, len(metrics) - columns) : len(metrics)]:
        axis.set_xlabel("over the predicted value")
    legend(figure, handles, across)
    return figure


def reach_of(halves, factor):
    """Half the width of a strip's axis. An interval many times as wide as most, as a small call's slack in
    bytes, runs out of the picture instead of flattening the others."""
    return factor * max(min(max(halves), 4 * statistics.median(halves)), 1e-4) if halves else factor * 0.01


def interval(run, metric):
    """(value, low, high) as predicted, or None."""
    if metric == "time":
        t = run.prediction["time_us"]
        return t["expected"], t["low"], t["high"]
    for c in run.prediction["counters"]:
        if c["metric"] == metric:
            return c["value"], c["low"], c["high"]
    return None


def seen(run, metric):
    """(median, low, high) as measured: a time's band, a counter's least and largest launch; or None."""
    if metric == "time":
        t = run.problem["time_us"]
        return (t["median"], t["low"], t["high"]) if t["median"] > 0 else None
    values = run.values(metric)
    return (statistics.median(values), min(values), max(values)) if values else None


def draw_strip(axis, y, predicted, measured, reach):
    """One row: the interval as a bar, the measured median with its whisker; beyond the edge an arrow and a
    factor."""
    if not predicted or predicted[0] <= 0:
        return
    value, low, high = predicted
    ends = [min(max(end / value, 1 - reach), 1 + reach) for end in (low, high)]
    axis.add_patch(
        Rectangle(
            (ends[0], y - 0.36),
            ends[1] - ends[0],
            0.72,
            facecolor=LINE,
            edgecolor=MUTED,
            linewidth=0.6,
            zorder=2,
        )
    )
    if measured is None:
        axis.text(1, y, "no number", fontsize=9.5, color=INK, ha="center", va="center", zorder=5)
        return
    is_inside = low <= measured[0] <= high
    colour, marker, _ = palette.VERDICTS["CONFIRMED" if is_inside else "REFUTED"]
    at = measured[0] / value
    if abs(at - 1) < reach:
        axis.plot([measured[1] / value, measured[2] / value], [y, y], color=INK, linewidth=1.1, zorder=3)
        axis.plot(
            [at],
            [y],
            marker=marker,
            color=colour,
            markersize=5.5 if is_inside else 7,
            markeredgecolor=INK,
            markeredgewidth=0.5,
            zorder=4,
        )
        return
    side = 1 if at > 1 else -1
    axis.plot(
        [1 + side * 0.955 * reach],
        [y],
        marker=">" if side > 0 else "<",
        color=colour,
        markersize=8,
        markeredgecolor=INK,
        markeredgewidth=0.5,
        zorder=4,
    )
    axis.text(
        1 + side * 0.88 * reach,
        y,
        f"× {at:.3g}",
        fontsize=10,
        color=INK,
        va="center",
        ha="right" if side > 0 else "left",
        zorder=5,
    )


# ---- for the README ------------------------------------------------------------------------------
def readme(kernels, width):
    """Time and DRAM bytes of every profiled prediction in force: measured over predicted, with the verdict's
    mark."""
    rows = [(k, run) for k in kernels for run in k.runs_in_force()]
    if not rows:
        return None
    used = [v for v in palette.VERDICTS if any(run.problem["verdict"] == v for _, run in rows)]
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=LINE, edgecolor=MUTED, linewidth=0.6, label="predicted interval")
    ]
    handles += [mark(palette.VERDICTS[v][0], palette.VERDICTS[v][1], v) for v in used]
    lines, y = [], 0.0  # (y, kernel or None, run)
    for kernel in dict.fromkeys(k for k, _ in rows):
        lines.append((y, kernel, None))
        y += 1.05
        for k, run in rows:
            if k is kernel:
                lines.append((y, kernel, run))
                y += 1
        y += 0.35
    height = 18 * y
    figure, axes = canvas(width, height + 50 + 44, 1, 2, left=150, right=74, top=50, bottom=44, wgap=92)
    for axis, metric, title in zip(axes.flat, ("time", "dram__bytes.sum"), ("time", "DRAM bytes")):
        axis.set_ylim(y - 0.4, -0.6)
        axis.spines["left"].set_visible(False)
        axis.set_yticks([])
        axis.set_title(f"{title}: measured / predicted")
        axis.axvline(1, color=MUTED, linewidth=0.8)
        halves = []
        for _, run in rows:
            it = interval(run, metric)
            if it and it[0] > 0:
                halves += [abs(it[1] / it[0] - 1), abs(it[2] / it[0] - 1)]
        reach = reach_of(halves, 1.8)
        axis.set_xlim(1 - reach, 1 + reach)
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        pixel = 2 * reach / (width - 150 - 74 - 92) * 2
        for at, kernel, run in lines:
            if run is None:
                if metric == "time":
                    axis.text(
                        1 - reach - 142 * pixel, at, kernel.title, fontweight="bold", va="center", color=INK
                    )
                continue
            it, has = interval(run, metric), seen(run, metric)
            label = model.short(run.prediction["shape"], run.prediction["layout"])
            if metric == "time":
                axis.text(1 - reach - 8 * pixel, at, label, ha="right", va="center", color=INK)
            if it is None:
                continue
            draw_verdict(axis, at, it, has, reach, run.problem["verdict"])
            if has:
                number = f"{model.micros(has[0])} µs" if metric == "time" else model.size(has[0])
                axis.text(1 + reach + 8 * pixel, at, number, va="center", color=MUTED, fontsize=10.5)
    legend(figure, handles, len(handles))
    return figure


def draw_verdict(axis, y, predicted, measured, reach, verdict):
    """As draw_strip, but the mark is that of the whole prediction's verdict."""
    value, low, high = predicted
    if value <= 0:
        return
    ends = [min(max(end / value, 1 - reach), 1 + reach) for end in (low, high)]
    axis.add_patch(
        Rectangle(
            (ends[0], y - 0.34),
            ends[1] - ends[0],
            0.68,
            facecolor=LINE,
            edgecolor=MUTED,
            linewidth=0.6,
            zorder=2,
        )
    )
    if measured is None:
        return
    colour, marker, _ = palette.VERDICTS[verdict]
    at = measured[0] / value
    clipped = min(max(at, 1 - 0.96 * reach), 1 + 0.96 * reach)
    axis.plot(
        [clipped],
        [y],
        marker=marker if clipped == at else ">" if at > 1 else "<",
        color=colour,
        markersize=7,
        markeredgecolor=INK,
        markeredgewidth=0.6,
        zorder=4,
    )
    if clipped != at:
        axis.text(
            1 + (0.86 if at > 1 else -0.86) * reach,
            y,
            f"× {at:.3g}",
            fontsize=10,
            color=INK,
            va="center",
            ha="right" if at > 1 else "left",
            zorder=5,
        )
