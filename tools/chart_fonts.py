#!/usr/bin/env python3
"""Cuts the fonts that PNG charts are drawn with out of Noto Sans CJK: only the characters that charts can hold.

    pip install fonttools && apt-get install fonts-noto-cjk
    tools/chart_fonts.py [/usr/share/fonts/opentype/noto]

To be run again when a catalogue's chart texts get new characters; a unit test names those that are missing.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPORT = Path(__file__).resolve().parents[1] / "g35ctl/report"
FAMILY = "G35 Chart"
SIMPLIFIED_CHINESE = "Noto Sans CJK SC"
PUNCTUATION = "\u2013\u2014\u2018\u2019\u201c\u201d\u2020\u2021\u2026"
CHART_KEYS = ("paths", "tiers", "serving", "bench", "emulated", "scaled", "predicted")


def characters() -> str:
    """Printable Latin-1, the punctuation of figures, and all that stands in the catalogues' chart texts."""
    found = {chr(code) for code in (*range(0x20, 0x7F), *range(0xA0, 0x100))} | set(PUNCTUATION)
    for catalogue in sorted((REPORT / "catalogues").glob("*.toml")):
        texts = tomllib.loads(catalogue.read_text(encoding="utf-8"))
        for key in CHART_KEYS:
            found.update(*strings(texts[key]))
    return "".join(sorted(found))


def strings(value: Any) -> Iterator[str]:
    """Every text in nested tables."""
    if isinstance(value, str):
        yield value
    else:
        for item in value.values():
            yield from strings(item)


def cut(source: Path, style: str, target: Path) -> None:
    """Write the subset of the collection's simplified Chinese face."""
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTCollection

    faces = TTCollection(source).fonts
    font = next(face for face in faces if face["name"].getDebugName(1).startswith(SIMPLIFIED_CHINESE))
    options = Options(layout_features=["kern"], hinting=False, notdef_outline=True, name_IDs=[0, 1, 2, 13, 14])
    options.drop_tables += ["BASE", "VORG", "vhea", "vmtx", "DSIG"]
    subsetter = Subsetter(options)
    subsetter.populate(text=characters())
    subsetter.subset(font)
    names = font["name"]
    for identifier, text in ((1, FAMILY), (2, style), (4, f"{FAMILY} {style}"), (6, f"G35Chart-{style}")):
        names.setName(text, identifier, 3, 1, 0x409)
    font["head"].modified = font["head"].created
    font.recalcTimestamp = False
    font.save(target)


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/fonts/opentype/noto")
    fonts = REPORT / "fonts"
    fonts.mkdir(exist_ok=True)
    for style in ("Regular", "Bold"):
        cut(directory / f"NotoSansCJK-{style}.ttc", style, fonts / f"G35Chart-{style}.otf")
    (fonts / "characters.txt").write_text(characters() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
