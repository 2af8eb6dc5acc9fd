"""Reports: one document per run, rendered as JSON, HTML, JUnit and terminal text."""

from g35ctl.report.document import Document, build
from g35ctl.report.writer import Paths, read, rebuild, render, write

__all__ = ["Document", "Paths", "build", "read", "rebuild", "render", "write"]
