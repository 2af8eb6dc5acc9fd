"""The few SVG elements that charts are made of, every text escaped, every coordinate with at most two decimals."""

from __future__ import annotations

import unicodedata
from html import escape

#: Blue, vermilion, green and so on: told apart with every common colour blindness (Okabe and Ito), and by marker shape
#: and dashes where a printer knows no colour at all.
BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#56b4e9", "#cc79a7"
INK, DIM, GRID, PAPER, EMPTY = "#1c2733", "#5b6773", "#dfe4e9", "#ffffff", "#c9ced6"


def number(value: float) -> str:
    """A coordinate: at most two decimals, none where none are needed."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def element(tag: str, content: str = "", /, **attributes: str | float) -> str:
    """One element. ``content`` is markup already; underscores in attribute names become dashes, ``class_`` class."""
    told = "".join(f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{told}>{content}</{tag}>" if content else f"<{tag}{told}/>"


def _attribute(value: str | float) -> str:
    return escape(value, quote=True) if isinstance(value, str) else number(value)


def text(x: float, y: float, words: str, *, size: float = 12, colour: str = INK, anchor: str = "start",
         bold: bool = False, value: str = "") -> str:  # fmt: skip
    """Words at a baseline point, with a bold value behind them."""
    weight: dict[str, str | float] = {"font_weight": "700"} if bold else {}
    behind = element("tspan", escape(value, quote=False), font_weight="700", dx=4) if value else ""
    return element(
        "text", escape(words, quote=False) + behind, x=x, y=y, font_size=size, fill=colour, text_anchor=anchor, **weight
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dash: str = "") -> str:
    """A straight line."""
    dashes: dict[str, str | float] = {"stroke_dasharray": dash} if dash else {}
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=width, **dashes)


def text_width(words: str, size: float = 12) -> float:
    """Roughly how wide words are: ideographs are as wide as they are high, the rest a little over half of that."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    return (wide + (len(words) - wide) * 0.56) * size


def marker(shape: str, x: float, y: float, colour: str, title: str, *, hollow: bool = False, size: float = 4.5) -> str:
    """A data point: circle, square, diamond or triangle, with a title that browsers show on hover."""
    fill = PAPER if hollow else colour
    style: dict[str, str | float] = {"fill": fill, "stroke": colour, "stroke_width": 1.6, "class_": "mark"}
    told = element("title", escape(title, quote=False)) if title else ""
    if shape == "circle":
        return element("circle", told, cx=x, cy=y, r=size, **style)
    if shape == "square":
        return element(
            "rect", told, x=x - size + 0.5, y=y - size + 0.5, width=2 * size - 1, height=2 * size - 1, **style
        )
    corners = (
        ((x, y - size - 1), (x + size + 1, y), (x, y + size + 1), (x - size - 1, y))
        if shape == "diamond"
        else ((x, y - size - 0.5), (x + size + 0.5, y + size - 0.5), (x - size - 0.5, y + size - 0.5))
    )
    return element("polygon", told, points=" ".join(f"{number(a)},{number(b)}" for a, b in corners), **style)


def document(identifier: str, width: float, height: float, title: str, description: str, body: str) -> str:
    """The whole picture. ``identifier`` is unique on its page; title and description are for screen readers."""
    head = element("title", escape(title, quote=False), id=f"{identifier}-title")
    head += element("desc", escape(description, quote=False), id=f"{identifier}-desc") if description else ""
    return element(
        "svg",
        head + body,
        xmlns="http://www.w3.org/2000/svg",
        id=identifier,
        class_="chart",
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_labelledby=f"{identifier}-title" + (f" {identifier}-desc" if description else ""),
    )
