"""Charts as PNG, for documents that cannot hold SVG. Drawn with the package's own fonts: the same on every machine."""

from __future__ import annotations

from importlib import resources

ZOOM = 2.0
"""Pixels per SVG unit: charts are sharp in print at half a page's width."""
FAMILY = "G35 Chart"


class NoRenderer(Exception):
    """The library that draws PNG is not installed."""


def render(svg: str) -> bytes:
    """The picture as PNG on white. Raises NoRenderer, and ValueError for what is no SVG."""
    try:
        import resvg_py
    except ImportError as error:
        raise NoRenderer("PNG copies of the charts need resvg-py: pip install resvg-py") from error
    with resources.as_file(resources.files("g35ctl.report").joinpath("fonts")) as fonts:
        return bytes(
            resvg_py.svg_to_bytes(
                svg_string=svg,
                background="#ffffff",
                zoom=ZOOM,
                skip_system_fonts=True,
                font_dirs=[str(fonts)],
                font_family=FAMILY,
                sans_serif_family=FAMILY,
            )
        )
