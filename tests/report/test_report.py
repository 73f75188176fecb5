# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""`claims report` over synthetic records: what its pages hold, where it stands, and what it refuses.
`test_report.py [--claims PATH]`: with the program's path, its verdicts over the committed records are
compared too.
"""

import csv
import html.parser
import io
import itertools
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import unittest
import urllib.parse
import xml.etree.ElementTree

import support  # first: it finds a Python that has the packages, or skips

import yaml

import evidence

sys.path.insert(0, str(support.REPORT))
import figures  # noqa: E402
import model  # noqa: E402
import palette  # noqa: E402
import records  # noqa: E402

CLAIMS = sys.argv[sys.argv.index("--claims") + 1] if "--claims" in sys.argv else None
VOID_TAGS = {"meta", "link", "br", "img", "input", "hr"}


class Page(html.parser.HTMLParser):
    """A page's tables by section, its links, ids and tags."""

    def __init__(self, path):
        super().__init__()
        self.path, self.sections, self.links, self.ids, self.tags = path, [], [], [], []
        self.row = self.cell = None
        self.open = []
        self.feed(path.read_text())
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if tag not in VOID_TAGS:
            self.open.append(tag)
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "a":
            self.links.append(attributes["href"])
        if tag == "h2":
            self.sections.append({"id": attributes["id"], "rows": [], "text": ""})
        if tag == "tr":
            self.row = []
        if tag in ("td", "th"):
            self.cell = ""

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID_TAGS:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"{self.path}: </{tag}> closes what is not open")
        if tag in ("td", "th"):
            self.row.append(" ".join(self.cell.split()))
            self.cell = None
        if tag == "tr":
            self.sections[-1]["rows"].append(self.row)

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data
        if self.sections:
            self.sections[-1]["text"] += data

    def section(self, anchor):
        return next(s for s in self.sections if s["id"] == anchor)

    def files(self):
        """The files that its links lead to."""
        for link in self.links:
            if not link.startswith("#"):
                way = urllib.parse.urlsplit(link)
                path = urllib.parse.unquote(way.path)
                yield pathlib.Path(path) if way.scheme == "file" else (self.path.parent / path).resolve()


def everything(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def change(path, edit):
    """Applies `edit` to a record's fields in place."""
    fields = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    edit(fields)
    path.write_text(evidence.dump(fields))


class Written(unittest.TestCase):
    """One report of all the synthetic records."""

    @classmethod
    def setUpClass(cls):
        cls.folder = support.fresh("report")
        cls.report = support.synthetic_report(cls.folder)
        cls.evidence = cls.folder / "tree/evidence/gpu"
        cls.pages = {
            p.relative_to(cls.report).with_suffix("").as_posix(): Page(p) for p in cls.report.rglob("*.html")
        }
        cls.page = cls.pages["gpu/row_scale.bf16"]
        cls.device = records.read_device(cls.evidence)

    def test_there_is_a_page_a_kernel_and_dtype_in_both_forms(self):
        names = {"index", "gpu/row_scale.bf16", "gpu/row_scale+residual.bf16", "gpu/row_scale.f16"}
        self.assertEqual(set(self.pages), names)
        for name in names:
            self.assertTrue((self.report / f"{name}.md").read_text().startswith("# "))

    def test_losses_come_first(self):
        for name, page in self.pages.items():
            first = page.sections[0]
            self.assertTrue(first["id"].endswith("against"), name)
            verdicts = [row[0].split()[-1] for row in first["rows"][1:]]
            refuted = [verdict == "REFUTED" for verdict in verdicts]
            self.assertEqual(refuted, sorted(refuted, reverse=True), name)
            headings = re.findall(r"^## (.*)", (self.report / f"{name}.md").read_text(), re.M)
            self.assertRegex(headings[0], "speaks against")
        self.assertLess(
            self.pages["index"].links.index("gpu/row_scale.f16.html"), len(self.pages["index"].links)
        )

    def test_every_loss_is_there_and_nothing_else(self):
        rows = [(row[0].split()[-1], row[1], row[2]) for row in self.page.section("against")["rows"][1:]]
        self.assertEqual(
            sorted(rows),
            sorted(
                [
                    ("REFUTED", "understood, prediction 1", "8192 x 7168"),
                    ("REFUTED", "understood, prediction 1", "4096 x 5120"),
                    ("REFUTED", "fast, against rival", "16384 x 4096"),
                    ("REFUTED", "fast, against the floor", "16384 x 8192"),
                    ("INVALID", "understood, prediction 1", "64 x 4096"),
                    ("INVALID", "fast, comparison void", "1 x 4096"),
                    ("INCONCLUSIVE", "understood, prediction 1", "1 x 4096"),
                    ("INCONCLUSIVE", "fast, against rival", "4096 x 5120"),
                    ("INCONCLUSIVE", "fast, against the floor", "64 x 4096"),
                    ("INCONCLUSIVE", "fast, against the floor", "3000 x 4096"),
                ]
            ),
        )
        self.assertIn("Predicted, not profiled: 262144 x 64.", self.page.section("against")["text"])
        wrong = self.pages["gpu/row_scale.f16"].section("against")["rows"][1]
        self.assertEqual(
            wrong[1:5],
            ["correct (edge)", "5 x 1", "y: 3 of 5 wrong, error/bound 1.75", "3 of 5 elements are wrong"],
        )

    def test_a_replaced_prediction_stays_marked_from_both_sides(self):
        rows = {(row[1], row[2]): row for row in self.page.section("predictions")["rows"] if len(row) == 10}
        self.assertIn("REFUTED", rows["4096 x 5120", "1"][0])
        self.assertIn("replaced by prediction 2: the row is read twice", rows["4096 x 5120", "1"][3])
        self.assertIn("CONFIRMED", rows["4096 x 5120", "2"][0])
        self.assertIn("replaces prediction 1", rows["4096 x 5120", "2"][3])
        self.assertEqual(rows["262144 x 64", "1"][0], "not profiled")
        self.assertIn("look at the tail", rows["8192 x 7168", "1"][8])
        self.assertEqual(
            {shape for (shape, _), row in rows.items() if "held out" in row[3]},
            {f"{r} x {c}" for r, c in evidence.HELD_OUT},
        )
        self.assertEqual(len(rows), 1 + sum(p["kernel"] == evidence.KERNEL for p in self.device.predictions))

    def test_every_claim_of_every_profile_is_a_row_with_the_records_numbers(self):
        count = 0
        for record in self.device.profiles:
            for problem in record["problems"]:
                page = self.pages[f"gpu/{problem['kernel']}.bf16"]
                rows = [row for row in page.section("predictions")["rows"] if len(row) == 9]
                for v in problem["verdicts"]:
                    want = [
                        v["claim"],
                        model.exact(v["low"]),
                        model.exact(v["high"]),
                        model.exact(v["observed"]),
                        v["why"],
                    ]
                    self.assertTrue(
                        any(v["verdict"] in row[0] and [row[1], *row[3:6], row[7]] == want for row in rows),
                        want,
                    )
                    count += 1
        self.assertGreater(count, 100)

    def test_every_race_has_the_records_numbers(self):
        rows = {row[0].removesuffix(" (held out)"): row for row in self.page.section("races")["rows"]}
        latest = {
            c["shape"]: c
            for s in self.device.sessions
            for c in s["comparisons"]
            if c["kernel"] == evidence.KERNEL and not c["void"]
        }
        self.assertEqual(len(latest), 9)
        for shape, c in latest.items():
            row, arms = rows[model.short(shape)], {a["name"]: a for a in c["arms"]}
            self.assertTrue(row[1].startswith(f"{arms['capstone']['ms'] * 1e3:.4g} ["), row)
            self.assertIn(f"{c['floor_target']['median']:.3f}", row[2])
            for name, cell in (
                ("rival", row[3]),
                ("unfused", row[4]),
            ):  # fused and unfused stand side by side
                gain = arms[name]["speedup"]
                self.assertIn(f"{gain['median']:.3f} [{gain['low']:.3f}, {gain['high']:.3f}]", cell)
        self.assertIn("REFUTED", rows["16384 x 4096"][3])
        sentences = self.page.section("speed")["rows"]
        self.assertEqual(sentences[1], [evidence.SENTENCES[1][5], evidence.SENTENCES[2][5]])

    def test_every_timeline_says_its_share_and_counts_its_slivers(self):
        text, rows = self.page.section("timeline")["text"], self.page.section("timeline")["rows"]
        for t in self.device.timelines:
            for lane in t["lanes"]:
                percent = 100 * lane["launch_share"]
                shown = f"{percent:.0f} %" if percent >= 10 else f"{percent:.1f} %"
                self.assertIn(f"{lane['name']}: {shown} launch and gap", text)
                spread = [figures.share(end(lane["shares"])) for end in (min, max)] if "shares" in lane else None
                row = next(r for r in rows if r[0] == lane["name"] and r[6] == model.exact(lane["window_us"]))
                self.assertEqual(row[-1], shown + (f" [{spread[0]}, {spread[1]}]" if spread else ""))
        self.assertIn("; 32 under 1 pixel", text)  # 780 us on 962 pixels, kernels of 0.2 us every 25 us
        svg = (self.report / "gpu/figures/row_scale.bf16.timeline-1.svg").read_text()
        self.assertIn("<pattern", svg)  # hatched gaps
        self.assertIn("Traced by CUPTI activity; nsys: no importer beside it", svg)
        self.assertIn("Traced by CUPTI activity 13.0; nsys: no importer beside it.", text)
        self.assertIn("Traced by CUPTI activity 13.0.", text)  # of schema 1

    def test_accuracy_is_counted_from_the_records(self):
        rows = {tuple(row[:2]): row[2:] for row in self.page.section("accuracy")["rows"]}
        problems = [
            (q, q["predicted"])
            for r in self.device.profiles
            for q in r["problems"]
            if q["kernel"] == evidence.KERNEL
        ]
        for title, keep in (
            ("shapes tuned on", lambda p: "replaced_by" not in p and not held_out(p)),
            ("held-out shapes", held_out),
            ("all ever profiled, replaced ones too", lambda p: True),
        ):
            inside = judged = 0
            for q, p in problems:
                if keep(p):
                    seen = {c["metric"]: statistics.median(c["values"]) for c in q["counters"]}
                    wanted = [(c["low"], seen[c["metric"]], c["high"]) for c in p["counters"]]
                    wanted.append((p["time_us"]["low"], q["time_us"]["median"], p["time_us"]["high"]))
                    inside += sum(low <= value <= high for low, value, high in wanted)
                    judged += len(wanted)
            self.assertEqual(
                rows[title, "all"][:2], [f"{inside} of {judged}", f"{100 * inside / judged:.1f} %"]
            )
        self.assertEqual(rows["held-out shapes", "time"][2], "± 4.5 %")

    def test_the_roofline_has_flops_over_bytes(self):
        rows = {(row[0], row[1]): row for row in self.page.section("roofline")["rows"]}
        flops, (reads, writes) = 4 * 16384 * 8192, (2 * 16384 * 8192 + 2 * 8192, 2 * 16384 * 8192 - 25500000)
        us = evidence.expected_us(16384, 8192)
        row = rows["16384 x 8192", "DRAM"]
        self.assertEqual(row[2:4], [str(flops), f"{flops / (reads + writes):.4g}"])
        self.assertTrue(row[4].startswith(f"{flops / us / 1e6:.4g} ["))
        self.assertEqual(rows["262144 x 64", "L2"][5:], ["not profiled", "not profiled"])
        self.assertNotIn(
            ("4096 x 4096", "DRAM"),
            {tuple(r[:2]) for r in self.pages["gpu/row_scale+residual.bf16"].section("roofline")["rows"]},
        )

    def test_every_record_is_linked_and_every_link_leads_somewhere(self):
        wanted = {p.resolve() for p in self.evidence.rglob("*") if p.is_file()}
        found = set()
        for name, page in self.pages.items():
            files = set(page.files())
            for path in files:
                self.assertTrue(path.is_file(), f"{name} links to {path}")
            found |= files
            text = (self.report / f"{name}.md").read_text()
            for link in re.findall(r"\]\(([^)]*)\)", text):
                path = (page.path.parent / urllib.parse.unquote(link)).resolve()
                self.assertTrue(path.is_file(), f"{name}.md links to {link}")
        self.assertEqual(wanted - found, set())
        for path in wanted:  # named from the repository's root
            name = path.relative_to(self.folder.resolve() / "tree").as_posix()
            self.assertTrue(any(name in page.path.read_text() for page in self.pages.values()), name)

    def test_every_figure_links_to_its_records(self):
        for name, page in self.pages.items():
            text = page.path.read_text()
            for figure in re.findall(r"<figure.*?</figure>", text, re.S):
                self.assertRegex(figure, r'<a href="\.\./\.\./\.\./evidence/gpu/', name)
                self.assertEqual(figure.count("<svg"), 2)
        self.assertEqual(self.page.path.read_text().count("<figure "), 7)

    def test_pages_need_nothing_else(self):
        for name, page in self.pages.items():
            for tag, attributes in page.tags:
                self.assertNotIn(tag, ("script", "img", "iframe", "object"), name)
                for key in ("src", "href", "xlink:href"):
                    self.assertNotRegex(attributes.get(key) or "", r"^(https?:)?//", name)
                if tag == "link":
                    self.assertTrue(attributes["href"].startswith("data:"), name)
            self.assertNotRegex(page.path.read_text(), r"@import|url\(['\"]?http")
            twice = [
                i for i in set(page.ids) if page.ids.count(i) > 1 and not re.search(r"-m[0-9a-f]{10}$", i)
            ]
            self.assertEqual(twice, [], name)

    def test_figures_are_text_that_follows_the_page(self):
        for path in self.report.rglob("*.svg"):
            xml.etree.ElementTree.parse(path)
        svgs = re.findall(r"<svg.*?</svg>", self.page.path.read_text(), re.S)
        for svg in svgs:
            for pattern in ("<text", "system-ui", "currentColor", 'role="img" aria-label="[^"]+"'):
                self.assertTrue(re.search(pattern, svg), pattern)
            self.assertEqual(re.findall("#000000|#01020[0-9]|DejaVu", svg), [])

    def test_the_index_counts_the_verdicts(self):
        rows = {row[0]: row[1:] for row in self.pages["index"].section("gpu-kernels")["rows"]}
        self.assertEqual(
            rows["row_scale, bf16"],
            [
                "17 confirmed",
                "2 refuted, 3 invalid, 3 inconclusive, 16 confirmed".replace(
                    "16", str(fast_wins(self.device))
                ),
                "2 refuted, 1 invalid, 1 inconclusive, 11 confirmed, 1 not profiled",
            ],
        )
        self.assertEqual(rows["row_scale, f16"][0], "1 refuted, 16 confirmed")


def held_out(p):
    return tuple(model.dims(p["shape"]).values()) in evidence.HELD_OUT


def fast_wins(device):
    """Confirmed claims of speed of the kernel, counted by hand: over each baseline and the floor's target."""
    wins = 0
    for s in device.sessions:
        for c in s["comparisons"]:
            if c["kernel"] == evidence.KERNEL and not c["void"]:
                wins += sum(
                    a["speedup"]["low"] > 1.001 for a in c["arms"] if a["name"] in ("rival", "unfused")
                )
                wins += c["bytes"] >= 67e6 and c["floor_target"]["high"] <= 1.03
    return wins


class Small(unittest.TestCase):
    """Reports of few records, and records that are refused."""

    @classmethod
    def setUpClass(cls):
        cls.whole = support.fresh("report_whole")
        evidence.build(cls.whole)

    def setUp(self):
        self.folder = support.fresh("report_small")
        self.root = self.folder / "evidence"
        self.gpu = self.root / "gpu"
        shutil.copytree(self.whole, self.root)

    def write(self, *more, check=True, out=None):
        out = out or self.folder / "out"
        return support.report(
            "--evidence", self.root, "--root", self.folder, "--out", out, *more, check=check
        )

    def drop(self, *kinds):
        for kind in kinds:
            path = self.gpu / kind
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def test_the_same_records_give_the_same_bytes(self):
        environment = dict(os.environ)
        try:
            for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo")):
                os.environ.update(PYTHONHASHSEED=seed, TZ=zone)
                self.write(out=self.folder / f"out{seed}")
        finally:
            os.environ.clear()
            os.environ.update(environment)
        one, other = (everything(self.folder / f"out{seed}") for seed in "12")
        self.assertEqual(list(one), list(other))
        self.assertEqual([name for name in one if one[name] != other[name]], [])

    def test_a_changed_verdict_shows(self):
        self.drop("timelines", "sessions", "ceilings.yaml")
        self.write()
        before = Page(self.folder / "out/gpu/row_scale.bf16.html")

        def lose(fields):
            problem = next(q for q in fields["problems"] if q["shape"] == "rows=16384,cols=8192")
            claim = next(v for v in problem["verdicts"] if v["claim"] == "time")
            claim |= {"verdict": "REFUTED", "why": "planted"}
            problem |= {"verdict": "REFUTED", "story": "a planted story", "next": "find it"}

        change(self.gpu / "profiles/prof-1.yaml", lose)
        self.write()
        after = Page(self.folder / "out/gpu/row_scale.bf16.html")
        rows = [
            [row[2] for row in page.section("against")["rows"] if "REFUTED" in row[0]]
            for page in (before, after)
        ]
        self.assertEqual(sorted(rows[1]), sorted(rows[0] + ["16384 x 8192"]))
        self.assertIn("planted", after.section("against")["text"])
        self.assertIn("a planted story", (self.folder / "out/gpu/row_scale.bf16.md").read_text())
        index = Page(self.folder / "out/index.html")
        self.assertTrue(any("16384 x 8192" in row for row in index.section("gpu-against")["rows"]))

    def test_missing_kinds_of_records_are_normal(self):
        self.drop("timelines", "sessions", "ceilings.yaml", "predictions", "profiles")
        self.write()
        page = Page(self.folder / "out/gpu/row_scale.bf16.html")
        for anchor, words in (
            ("against", "not profiled"),
            ("races", "Not raced"),
            ("roofline", "not profiled"),
            ("timeline", "No timeline"),
            ("accuracy", "not profiled"),
            ("speed", "Left out"),
        ):
            self.assertIn(words, page.section(anchor)["text"])
        self.assertIn("Not measured.", Page(self.folder / "out/index.html").section("gpu-ceilings")["text"])
        result = support.report(
            "--evidence", self.root, "--figure", "roofline", "--out", self.folder / "r.svg", check=False
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn("holds nothing that the figure roofline could show", result.stderr)

    def test_predictions_without_profiles_are_shown(self):
        self.drop("profiles", "timelines", "verify", "sessions")
        self.write()
        page = Page(self.folder / "out/gpu/row_scale.bf16.html")
        self.assertIn("Predicted, not profiled: ", page.section("against")["text"])
        rows = [row for row in page.section("predictions")["rows"][1:] if len(row) == 10]
        self.assertEqual({row[0] for row in rows}, {"not profiled"})

    def test_every_figure_can_be_written_alone(self):
        for name in ("readme", "floor", "roofline", "timeline", "accuracy", "held-out"):
            path = self.folder / f"{name}.svg"
            support.report("--evidence", self.root, "--figure", name, "--out", path)
            xml.etree.ElementTree.parse(path)
            self.assertIn("prefers-color-scheme:dark", path.read_text())
        self.assertIn("capstone, stream: 99 %", (self.folder / "timeline.svg").read_text())

    def test_records_outside_the_tree_are_linked_whole(self):
        self.drop("timelines", "sessions", "profiles", "predictions")
        support.report(
            "--evidence", self.root, "--root", self.folder / "elsewhere", "--out", self.folder / "out"
        )
        page = Page(self.folder / "out/gpu/row_scale.bf16.html")
        self.assertIn((self.gpu / "verify/row_scale.bf16.yaml").resolve(), set(page.files()))
        self.assertTrue(any(link.startswith("file:///") for link in page.links))

    def test_broken_records_are_refused_by_name(self):
        def first(key):
            return lambda fields: fields["problems"][0].update(key)

        prediction = "predictions/row_scale.bf16/rows=4096,cols=5120.2.yaml"
        breaks = [
            ("profiles/prof-1.yaml", lambda f: f.pop("problems"), "problems is missing"),
            ("profiles/prof-1.yaml", lambda f: f.update(schema="capstone-profile/9"), "schema is"),
            ("profiles/prof-1.yaml", first({"verdict": "CONFIRMED"}), "expected INCONCLUSIVE"),
            ("profiles/prof-1.yaml", first({"verdict": "MAYBE"}), "'MAYBE'"),
            ("profiles/prof-1.yaml", first({"prediction_sha256": "sha256:0"}), "one of them was changed"),
            ("profiles/prof-1.yaml", first({"prediction": "predictions/none.yaml"}), "no such prediction"),
            ("profiles/prof-1.yaml", first({"layout": "pad=1"}), "another problem"),
            (
                "profiles/prof-1.yaml",
                lambda f: f["problems"][0]["time_us"].update(median="fast"),
                "time_us.median is 'fast'",
            ),
            (
                "profiles/prof-1.yaml",
                lambda f: f["problems"][0]["time_us"].update(median=float("nan")),
                "time_us.median",
            ),
            (prediction, lambda f: f.update(supersedes="sha256:" + "9" * 64), "is no prediction of"),
            (prediction, lambda f: f.update(shape="rows=1,cols=1"), "expected the name"),
            (prediction, lambda f: f["counters"][0].pop("low"), "counters[0].low is missing"),
            ("sessions/race-1.yaml", lambda f: f["comparisons"][0].update(void=False), "void is False"),
            ("sessions/race-1.yaml", lambda f: f["comparisons"][1]["arms"].pop(), "no arm named 'floor'"),
            (
                "sessions/race-1.yaml",
                lambda f: f["comparisons"][1]["arms"][2].pop("speedup"),
                "a speedup for every arm",
            ),
            ("verify/row_scale.bf16.yaml", lambda f: f["device"].update(id="other"), "device is 'other'"),
            (
                "verify/row_scale.bf16.yaml",
                lambda f: f["problems"][0].update(passed="yes"),
                "passed is 'yes'",
            ),
            (
                "ceilings.yaml",
                lambda f: f["rates"]["fma_tflops"].update(low="x"),
                "rates.fma_tflops.low is 'x'",
            ),
            (
                "timelines/row_scale.bf16.rows=1,cols=4096.yaml",
                lambda f: f["lanes"][0]["kernels"][0].pop(),
                "expected [start",
            ),
            (
                "timelines/row_scale.bf16.rows=1,cols=4096.yaml",
                lambda f: f["lanes"][0].update(names=[]),
                "not in names",
            ),
            (
                "timelines/row_scale.bf16.rows=1,cols=4096.yaml",
                lambda f: f.update(source="CUPTI activity 13.0"),
                "expected tracer alone",
            ),
            (
                "timelines/row_scale.bf16.rows=1,cols=4096.yaml",
                lambda f: f["tracer"].pop("fallback"),
                "tracer.fallback is missing",
            ),
        ]
        texts = [
            ("verify/row_scale.bf16.yaml", 'kernel: "x"\n', "the key 'kernel' occurs twice"),
            ("verify/row_scale.bf16.yaml", "  - [\n", ""),
            ("timelines/row_scale.bf16.rows=1,cols=4096.json", "}", ""),
        ]
        self.write(
            "--sentences",
            self.sentences("\t".join(records.SENTENCE_COLUMNS) + "\n"),
            "--figure",
            "readme",
            out=self.folder / "good.svg",
        )
        for name, edit, words in breaks:
            self.refuses(name, lambda path, edit=edit: change(path, edit), words)
        for name, more, words in texts:
            self.refuses(name, lambda path, more=more: path.write_text(path.read_text() + more), words)
        result = self.write(
            "--sentences",
            self.sentences("\t".join(records.SENTENCE_COLUMNS) + "\nthree\tcells\tonly\n"),
            check=False,
        )
        self.assertEqual(result.returncode, 1)
        self.assertIn("s.tsv:2: 3 cells", result.stderr)
        result = support.report(
            "--evidence", self.folder / "nowhere", "--out", self.folder / "out", check=False
        )
        self.assertEqual((result.returncode, "nowhere" in result.stderr), (1, True))

    def sentences(self, text):
        path = self.folder / "s.tsv"
        path.write_text(text)
        return path

    def refuses(self, name, spoil, words):
        path = self.gpu / name
        good = path.read_bytes()
        spoil(path)
        with self.subTest(name=name, words=words):
            with self.assertRaises(records.RecordError) as caught:
                records.read_evidence(self.root)
            self.assertIn(pathlib.Path(name).name, str(caught.exception))
            self.assertIn(words, str(caught.exception))
        path.write_bytes(good)

    def test_a_broken_record_is_a_sentence_and_exit_code_1(self):
        path = self.gpu / "sessions/race-1.yaml"
        path.write_text(path.read_text().replace("voids:", "void_count:"))
        result = self.write(check=False)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"^claims report: \S*race-1\.yaml: voids is missing\n$")
        self.assertFalse((self.folder / "out").exists())


class Committed(unittest.TestCase):
    """The records of this repository."""

    def test_verdicts_are_those_of_claims_table(self):
        if CLAIMS is None:
            self.skipTest("needs --claims PATH, the built program")
        table = subprocess.run(
            [CLAIMS, "table"], check=True, text=True, stdout=subprocess.PIPE, cwd=support.SOURCE
        ).stdout
        wanted = {}
        for row in csv.DictReader(io.StringIO(table), delimiter="\t"):
            if row["claim"] in ("correct", "fast"):
                key = row["device"], row["kernel"], row["dtype"], row["claim"], row["verdict"]
                wanted[key] = wanted.get(key, 0) + 1
        found = {}
        for device in records.read_evidence(support.SOURCE / "evidence"):
            for kernel in model.kernels_of(device):
                for claim in ("correct", "fast"):
                    for verdict, count in kernel.counts()[claim].items():
                        found[device.id, kernel.name, kernel.dtype, claim, verdict] = count
        self.assertEqual(found, wanted)

    def test_a_report_of_them_is_written(self):
        out = support.fresh("report_committed")
        support.report("--out", out)
        for device in records.read_evidence(support.SOURCE / "evidence"):
            for kernel in model.kernels_of(device):
                self.assertTrue((out / device.id / f"{kernel.name}.{kernel.dtype}.html").is_file())


class Colours(unittest.TestCase):
    """The palette, for every eye and on both grounds."""

    LEAST = 0.06  # OKLab; three times what can just be told apart

    def close(self, marks):
        return [
            (vision, one, other)
            for vision in palette.VISION
            for one, other in itertools.combinations(marks, 2)
            if palette.distance(marks[one], marks[other], vision) < self.LEAST
        ]

    def test_marks_can_be_told_apart(self):
        self.assertEqual(self.close(palette.MARKS), [])

    def test_a_red_and_green_that_colour_blind_eyes_confuse_are_caught(self):
        found = self.close({"red": "#c44e52", "green": "#838428"})
        self.assertNotIn(("normal", "red", "green"), found)
        self.assertIn(("deuteranopia", "red", "green"), found)

    def test_text_stands_out(self):
        low = [
            (scheme, *pair)
            for scheme, colours in palette.SCHEMES.items()
            for pair in palette.TEXT_PAIRS
            if palette.contrast(*(colours[name] for name in pair)) < palette.TEXT_CONTRAST
        ]
        self.assertEqual(low, [])
        self.assertAlmostEqual(palette.contrast("#000000", "#ffffff"), 21)
        self.assertLess(palette.contrast("#999999", "#ffffff"), palette.TEXT_CONTRAST)

    def test_no_two_verdicts_share_a_mark_or_sign(self):
        for column in zip(*palette.VERDICTS.values()):
            self.assertEqual(len(set(column)), len(palette.VERDICTS))
        self.assertEqual(set(palette.VERDICTS), set(records.VERDICTS))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(a for a in sys.argv[1:] if a not in ("--claims", CLAIMS))])
