# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""Writes pages as HTML and Markdown. Nothing in the output depends on the time or on the machine's
settings."""

import os
import pathlib
import re
import urllib.parse

import jinja2
import markupsafe

import palette

TEMPLATES = pathlib.Path(__file__).resolve().parent / "templates"


class Writer:
    """`root` is the repository: records inside it are named and, if the output lies in it too, linked
    relatively."""

    def __init__(self, out, root):
        self.out, self.root = out.resolve(), root.resolve()
        options = {
            "loader": jinja2.FileSystemLoader(TEMPLATES),
            "undefined": jinja2.StrictUndefined,
            "trim_blocks": True,
            "lstrip_blocks": True,
            "keep_trailing_newline": True,
        }
        self.html = jinja2.Environment(autoescape=True, **options)
        self.markdown = jinja2.Environment(autoescape=False, **options)
        for environment in (self.html, self.markdown):
            environment.globals.update(name_of=self.name_of, kind_of=kind_of, verdicts=palette.VERDICTS)
        self.html.filters["prose"] = prose
        self.markdown.filters["cell"] = lambda text: re.sub(r"([|*_<>\\])", r"\\\1", text).replace("\n", " ")
        self.style = self.html.get_template("style.css.j2").render(schemes=palette.SCHEMES)

    def name_of(self, path):
        """A record's path from the repository's root, or the whole of it."""
        path = path.resolve()
        return (path.relative_to(self.root) if path.is_relative_to(self.root) else path).as_posix()

    def link(self, page, path):
        """Where a page finds a record."""
        path = path.resolve()
        if path.is_relative_to(self.root) and self.out.is_relative_to(self.root):
            return urllib.parse.quote(
                pathlib.Path(os.path.relpath(path, (self.out / page.path).parent)).as_posix()
            )
        return path.as_uri()

    def hop(self, page, target, suffix):
        """From one page to another, given without suffix."""
        way = os.path.relpath(str(target) + suffix, str(page.path.parent))
        return urllib.parse.quote(pathlib.Path(way).as_posix())

    def write(self, page):
        folder = (self.out / page.path).parent
        folder.mkdir(parents=True, exist_ok=True)
        for environment, template, suffix in (
            (self.html, "page.html.j2", ".html"),
            (self.markdown, "page.md.j2", ".md"),
        ):
            text = environment.get_template(template).render(
                page=page,
                style=markupsafe.Markup(self.style),
                svg=markupsafe.Markup,
                link=lambda path: self.link(page, path),
                hop=lambda target, s=suffix: self.hop(page, target, s),
                picture=lambda figure: urllib.parse.quote(picture_name(page, figure)),
            )
            (self.out / f"{page.path}{suffix}").write_text(text, encoding="utf-8")
        for figure in figures_of(page):
            path = folder / picture_name(page, figure)
            path.parent.mkdir(exist_ok=True)
            path.write_text(figure.alone, encoding="utf-8")


def picture_name(page, figure):
    """The file of a figure that a Markdown page shows, from that page's folder."""
    return f"figures/{page.path.name}.{figure.name}.svg"


def kind_of(path):
    """What a record is, by its folder: a table's link has no room for its path."""
    kinds = {"profiles": "profile", "sessions": "session", "verify": "verification", "timelines": "timeline"}
    return "prediction" if "predictions" in path.parts else kinds.get(path.parent.name, path.stem)


def figures_of(page):
    return [block for section in page.sections for block in section.blocks if block.kind == "figure"]


def prose(text):
    """Text with `code` in back quotes."""
    parts = str(markupsafe.escape(text)).split("`")
    return markupsafe.Markup("".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(parts)))
