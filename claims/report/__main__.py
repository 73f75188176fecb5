# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""`claims report`: pages from the records in evidence/, as HTML and Markdown. It measures nothing and judges
nothing anew: the same records give the same bytes.

Exit codes: 0 written, 1 the command line or a record is wrong, or a Python package is missing."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

try:
    import content
    import figures
    import model
    import records
    import render
except ImportError as error:
    print(
        f"claims report: {error}; install what {HERE / 'requirements.txt'} lists, e.g. in a venv: "
        f"python3 -m venv build/venv && build/venv/bin/pip install -r claims/report/requirements.txt",
        file=sys.stderr,
    )
    sys.exit(1)

FIGURES = ("readme", "floor", "roofline", "timeline", "accuracy", "held-out")


class Parser(argparse.ArgumentParser):
    """Exits as the other commands of `claims` do on a wrong command line."""

    def error(self, message):
        self.exit(1, f"{self.format_usage()}{self.prog}: {message}\n")


def arguments():
    parser = Parser(
        prog="claims report", description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[1]
    )
    parser.add_argument(
        "--evidence",
        type=pathlib.Path,
        default=ROOT / "evidence",
        metavar="DIR",
        help="the records, a folder a device (default: evidence/)",
    )
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        metavar="PATH",
        help="the folder to write (default: build/report), or the SVG file of --figure",
    )
    parser.add_argument(
        "--root",
        type=pathlib.Path,
        default=ROOT,
        metavar="DIR",
        help="records are named from here (default: the repository)",
    )
    parser.add_argument(
        "--sentences",
        type=pathlib.Path,
        metavar="FILE",
        help="the output of `claims table --sentences`: kernel, dtype, baseline, sentence",
    )
    parser.add_argument("--figure", choices=FIGURES, help="write this figure alone")
    parser.add_argument("--device", help="of --figure: the device's id (default: the first one)")
    parser.add_argument("--kernel", help="of --figure, e.g. rms_norm (default: the first that has it)")
    parser.add_argument("--dtype", help="of --figure, e.g. bf16")
    parser.add_argument(
        "--shape",
        help="of --figure timeline, e.g. rows=1,cols=4096 (default: the largest share of " "launch and gap)",
    )
    parser.add_argument("--width", type=int, default=figures.WIDE, metavar="PIXELS", help="of --figure")
    return parser.parse_args()


def write_report(options):
    devices = [(device, model.kernels_of(device)) for device in records.read_evidence(options.evidence)]
    sentences = records.read_sentences(options.sentences) if options.sentences else None
    out = options.out or ROOT / "build/report"
    writer = render.Writer(out, options.root)
    pages = [content.kernel_page(kernel, sentences) for _, kernels in devices for kernel in kernels]
    for page in [content.index_page(devices), *pages]:
        writer.write(page)
    print(f"{out}/index.html, index.md and {len(pages)} pages of kernels in both forms")


def write_figure(options):
    devices = [d for d in records.read_evidence(options.evidence) if options.device in (None, d.id)]
    kernels = [
        k
        for d in devices
        for k in model.kernels_of(d)
        if options.kernel in (None, k.name) and options.dtype in (None, k.dtype)
    ]
    drawn = alone(options.figure, kernels, options)
    if drawn is None:
        raise records.RecordError(
            f"{options.evidence}: holds nothing that the figure {options.figure} could show"
        )
    path = options.out or pathlib.Path(f"{options.figure}.svg")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        figures.labelled(figures.to_svg(drawn[0]), options.figure, drawn[1], alone=True), encoding="utf-8"
    )


def alone(name, kernels, options):
    """(figure, label) of the first kernel that has it, or None."""
    width = options.width
    if name == "readme":
        figure = figures.readme(kernels, width)
        return figure and (figure, "Measured over predicted time and DRAM bytes, by shape")
    if name == "timeline":
        found = [t for k in kernels for t in k.timelines if options.shape in (None, t["shape"])]
        if not found:
            return None
        chosen = max(found, key=lambda t: max(lane["launch_share"] for lane in t["lanes"]))
        figure = figures.timeline(chosen, width)
        return figure and (figure, f"Timeline of {chosen['kernel']}, {chosen['dtype']}, {chosen['shape']}")
    for kernel in kernels:
        figure = {
            "floor": lambda: figures.time_over_floor(kernel, width),
            "roofline": lambda: figures.roofline(kernel, width),
            "accuracy": lambda: figures.accuracy(kernel, width),
            "held-out": lambda: figures.accuracy(kernel, width, held_out=True),
        }[name]()
        if figure:
            return figure, f"{name}: {kernel.title}"
    return None


def main():
    options = arguments()
    try:
        if options.figure:
            write_figure(options)
        else:
            write_report(options)
    except records.RecordError as error:
        print(f"claims report: {error}", file=sys.stderr)
        sys.exit(1)


main()
