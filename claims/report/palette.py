# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
"""The colours of pages and figures, in one place, and the arithmetic that tests them.

Marks use the palette of Okabe and Ito; each also has a marker or a hatch of its own, so that nothing is said
by colour alone. Text never has a mark's colour."""

import math

BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"
MARKS = {
    "blue": BLUE,
    "vermillion": VERMILLION,
    "green": GREEN,
    "purple": PURPLE,
    "orange": ORANGE,
    "sky": SKY,
}

# Verdict: its mark's colour, matplotlib marker, and the sign that stands beside its name in a page.
VERDICTS = {
    "CONFIRMED": (BLUE, "o", "●"),
    "REFUTED": (VERMILLION, "X", "✕"),
    "INCONCLUSIVE": (ORANGE, "^", "▲"),
    "INVALID": (PURPLE, "s", "■"),
}

# The colours of a page by name, light and dark. Names are CSS custom properties.
LIGHT = {
    "bg": "#ffffff",
    "panel": "#f4f5f7",
    "text": "#1a1d21",
    "muted": "#5a626c",
    "link": "#00508a",
    "line": "#d5d9de",
    "loss": "#fdeee4",
}
DARK = {
    "bg": "#14171b",
    "panel": "#1e2329",
    "text": "#e8eaed",
    "muted": "#a4adb8",
    "link": "#7cc4f5",
    "line": "#3a424c",
    "loss": "#3a2114",
}
SCHEMES = {"light": LIGHT, "dark": DARK}

# (text, ground) pairs that occur in pages: text needs 4.5:1 (WCAG 2.1, AA).
TEXT_PAIRS = [(text, ground) for text in ("text", "muted", "link") for ground in ("bg", "panel", "loss")]
TEXT_CONTRAST = 4.5


def _rgb(colour):
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def _linear(colour):
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _rgb(colour)]


def contrast(one, other):
    """The contrast ratio of WCAG, 1 to 21."""
    lights = sorted(sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), _linear(x))) for x in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


# Full dichromacy on linear RGB: Machado, Oliveira, Fernandes, "A physiologically-based model for simulation
# of color vision deficiency", 2009, severity 1.
VISION = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def oklab(colour, vision="normal"):
    """OKLab coordinates of a colour as such an eye sees it."""
    red, green, blue = (
        min(1, max(0, sum(w * c for w, c in zip(row, _linear(colour))))) for row in VISION[vision]
    )
    l, m, s = (
        math.cbrt(v)
        for v in (
            0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue,
            0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue,
            0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue,
        )
    )
    return (
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    )


def distance(one, other, vision="normal"):
    """How far apart two colours are to such an eye, in OKLab; a just noticeable difference is about 0.02."""
    return math.dist(oklab(one, vision), oklab(other, vision))
