"""Writing a report into a run folder, and rebuilding it from what is stored there.

A rendering that cannot be made must not cost the run its result, nor the other renderings: report.json comes first, and
what failed is told in :attr:`Paths.problems` instead of being raised.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from g35ctl.engine.run import Run
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import Plan
from g35ctl.report import csv_text, junit, page, png, results
from g35ctl.report.charts.gallery import Picture, pictures
from g35ctl.report.document import Document, build
from g35ctl.report.strings import ENGLISH, Strings
from g35ctl.site.model import Site
from g35ctl.verdict import Verdict


@dataclass(frozen=True)
class Paths:
    """Where the parts of a report are. ``charts`` are the PNG copies; ``problems`` says what could not be made, and
    why: the files it names are then missing or of an earlier rendering."""

    json: Path
    html: Path
    junit: Path
    csv: Path
    charts: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()

    def named(self) -> tuple[str, ...]:
        """The paths as text, the page first; of the charts their folder."""
        charts = (str(self.charts[0].parent),) if self.charts else ()
        return (str(self.html), str(self.json), str(self.junit), str(self.csv), *charts)


def write(
    folder: Path | str,
    run: Run,
    verdicts: Sequence[Verdict],
    plan: Plan,
    site: Site,
    *,
    strings: Strings = ENGLISH,
    command: str = "",
) -> Paths:
    """Write the report of a run into its folder, with what the suites left there: always in English, and in the
    language of ``strings``, whose page ``html`` then names. Raises nothing: see ``problems``."""
    folder = Path(folder)
    try:
        document = build(run, verdicts, plan, site, results.collect(folder), command)
    except Exception as error:
        return _paths(folder, strings, (), (f"the report could not be made: {_told(error)}",))
    written = render(folder, document)
    if strings is ENGLISH:
        return written
    other = render(folder, document, strings)
    return _paths(folder, strings, other.charts, tuple(dict.fromkeys((*written.problems, *other.problems))))


def rebuild(folder: Path | str, strings: Strings = ENGLISH) -> Paths:
    """Make the page, charts, junit.xml and summary.csv again from the folder's report.json. Raises G35Error when there
    is none."""
    folder = Path(folder)
    return render(folder, read(folder), strings)


def read(folder: Path | str) -> Document:
    """The stored document of a run folder. Raises G35Error when it is missing or damaged."""
    source = Path(folder) / "report.json"
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise G35Error(
            "this run has no report",
            why=f"{source} does not exist; the run was interrupted before it, or was of a verb that makes none",
            next_command="g35ctl validate",
            exit_code=Exit.USAGE,
        ) from error
    except ValueError as error:
        raise G35Error(
            "the stored report is damaged",
            why=f"{source}: {error}",
            next_command="g35ctl validate",
            exit_code=Exit.USAGE,
        ) from error
    if not isinstance(data, dict):
        raise G35Error(
            "the stored report is damaged",
            why=f"{source}: expected an object, found {type(data).__name__}",
            next_command="g35ctl validate",
            exit_code=Exit.USAGE,
        )
    return Document.from_json(data)


def render(folder: Path, document: Document, strings: Strings = ENGLISH) -> Paths:
    """Write all files of ``document`` into ``folder``, each atomically. Raises nothing: see ``problems``."""
    paths = _paths(folder, strings)
    problems: list[str] = []

    def attempt(path: Path, content: Callable[[], str | bytes]) -> bool:
        try:
            store(path, content())
        except Exception as error:
            problems.append(f"{path} could not be written: {_told(error)}")
            return False
        return True

    attempt(paths.json, lambda: json.dumps(document.to_json(), indent=2, ensure_ascii=False) + "\n")
    drawn: tuple[Picture, ...] = ()
    try:
        drawn = pictures(document, strings)
    except Exception as error:
        problems.append(f"the charts could not be drawn: {_told(error)}")
    attempt(paths.html, lambda: page.render(document, strings, drawn))
    attempt(paths.junit, lambda: junit.render(document))
    attempt(paths.csv, lambda: csv_text.render(document))
    charts = []
    for chart in drawn:
        target = folder / f"charts{_suffix(strings)}" / f"{chart.identifier}.png"
        if attempt(target, partial(png.render, chart.svg)):
            charts.append(target)
    return _paths(folder, strings, tuple(charts), tuple(problems))


def _paths(folder: Path, strings: Strings, charts: tuple[Path, ...] = (), problems: tuple[str, ...] = ()) -> Paths:
    return Paths(
        folder / "report.json",
        folder / f"report{_suffix(strings)}.html",
        folder / "junit.xml",
        folder / "summary.csv",
        charts,
        problems,
    )


def _suffix(strings: Strings) -> str:
    """What the names of files in another language than English carry."""
    return "" if strings is ENGLISH else f".{strings.language}"


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, OSError | png.NoRenderer) else f"{type(error).__name__}: {error}"


def store(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    # Undecodable bytes of a tool's output must not lose a report.
    data = content if isinstance(content, bytes) else content.encode("utf-8", errors="backslashreplace")
    try:
        temporary.write_bytes(data)
        temporary.chmod(0o600)
        os.replace(temporary, path)  # noqa: PTH105 - atomic on purpose
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
