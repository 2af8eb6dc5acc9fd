"""Charts as SVG text, made from data alone: no script, no font, no style sheet, nothing to fetch."""
