"""Writing a report into a run folder, and rebuilding it from what is stored there."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from g35ctl.engine.run import Run
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.model import Plan
from g35ctl.report import junit, page
from g35ctl.report.document import Document, build
from g35ctl.report.strings import ENGLISH, Strings
from g35ctl.site.model import Site
from g35ctl.validate.verdict import Verdict


@dataclass(frozen=True)
class Paths:
    """Where the parts of a report are, and the document they were made from."""

    json: Path
    html: Path
    junit: Path
    document: Document

    def named(self) -> tuple[str, ...]:
        """The paths as text, the page first."""
        return (str(self.html), str(self.json), str(self.junit))


def write(folder: Path | str, run: Run, verdicts: Sequence[Verdict], plan: Plan, site: Site) -> Paths:
    """Write report.json, report.html and junit.xml into ``folder``. Raises OSError."""
    return render(Path(folder), build(run, verdicts, plan, site))


def rebuild(folder: Path | str, strings: Strings = ENGLISH) -> Paths:
    """Make the page and junit.xml again from the folder's report.json. Raises G35Error when there is none."""
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
    """Write all three files of ``document`` into ``folder``, each atomically. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths = Paths(folder / "report.json", folder / "report.html", folder / "junit.xml", document)
    _write(paths.json, json.dumps(document.to_json(), indent=2, ensure_ascii=False) + "\n")
    _write(paths.html, page.render(document, strings))
    _write(paths.junit, junit.render(document))
    return paths


def _write(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    # Undecodable bytes of a tool's output must not lose a report.
    temporary.write_text(content, encoding="utf-8", errors="backslashreplace")
    temporary.chmod(0o600)
    os.replace(temporary, path)  # noqa: PTH105 - atomic on purpose
