# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""What a page is made of, before it is HTML or Markdown: both templates walk over the same blocks, so that
the two forms cannot say different things."""

import dataclasses
import pathlib


@dataclasses.dataclass
class Cell:
    """A table's cell: text, a verdict before it, a link."""

    text: str = ""
    verdict: str = ""
    href: str = ""
    links: list = dataclasses.field(default_factory=list)  # paths of records
    brief: bool = False  # a verdict's sign alone, but for REFUTED


@dataclasses.dataclass
class Table:
    columns: list
    rows: list
    numeric: int = 0  # so many of the last columns hold numbers: they are aligned to the right
    loud: list = dataclasses.field(default_factory=list)  # indices of the rows that are losses
    kind: str = "table"


@dataclasses.dataclass
class Text:
    text: str
    kind: str = "text"


@dataclasses.dataclass
class Figure:
    """Two SVGs of the same figure, and the records that it was drawn from."""

    name: str
    caption: str
    wide: str
    narrow: str
    alone: str
    records: list
    kind: str = "figure"


@dataclasses.dataclass
class Details:
    """Blocks that are folded away in HTML."""

    summary: str
    blocks: list
    kind: str = "details"


@dataclasses.dataclass
class Records:
    """A list of records, with a word on each."""

    items: list  # (path, remark)
    kind: str = "records"


@dataclasses.dataclass
class Section:
    anchor: str
    title: str
    blocks: list


@dataclasses.dataclass
class Page:
    path: pathlib.Path  # below the output folder, without suffix
    title: str
    subtitle: str
    sections: list
    crumbs: list = dataclasses.field(default_factory=list)  # (text, page's path without suffix)


def cells(*values):
    """A row: strings become cells."""
    return [value if isinstance(value, Cell) else Cell(str(value)) for value in values]
