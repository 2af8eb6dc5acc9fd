"""What the doctor found, as lines and as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from g35ctl.exits import Exit
from g35ctl.validate.doctor.examine import unread
from g35ctl.validate.doctor.model import ERROR, INFO, Case, Diagnosis

SCHEMA_VERSION = 1
_WIDTH = 118


def exit_code(case: Case, found: Sequence[Diagnosis]) -> Exit:
    """5 when a host could not be read, 1 when something is wrong or may become so, 0 otherwise."""
    if case.now.readings.unreached or case.unread:
        return Exit.UNREACHABLE
    return Exit.DEPLOY_FAILED if any(item.severity != INFO for item in found) else Exit.OK


def to_json(case: Case, found: Sequence[Diagnosis]) -> dict[str, Any]:
    """The JSON document, with the keys every verb has."""
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": exit_code(case, found) is Exit.OK,
        "site": case.plan.site,
        "seconds_between_samples": round(case.seconds, 1),
        "emulated": case.now.readings.emulated,
        "diagnoses": [item.to_json() for item in found],
        "unread": [f"{item.host or 'controller'}: {item.observed}; {item.remedy}" for item in unread(case)],
        "failures": [
            {
                "host": ", ".join(item.hosts),
                "stage": "doctor",
                "check": item.cause,
                "subject": item.title,
                "observed": "; ".join(item.evidence),
                "expected": "",
                "remedy": item.remedy,
            }
            for item in found
            if item.severity == ERROR
        ],
    }


def lines(case: Case, found: Sequence[Diagnosis]) -> list[str]:
    """The findings as plain lines: cause, evidence, what follows from it, remedy."""
    serious = [item for item in found if item.severity != INFO]
    hosts = len(case.reached())
    sampled = f"two samples {case.seconds:.0f} s apart" if case.seconds else "one sample"
    head = f"{len(serious)} finding{'s' if len(serious) != 1 else ''}" if serious else "NOTHING FOUND"
    told = [f"{head}: site {case.plan.site}, {hosts} hosts read, {sampled}"]
    for number, item in enumerate(found, 1):
        told += ["", f"{number}. {item.severity.upper()} {item.cause}: {item.title}"]
        told += _labelled("seen", item.evidence)
        more = (f"and {len(item.follows) - 6} more",) if len(item.follows) > 6 else ()
        told += _labelled("explains", (*item.follows[:6], *more))
        told += _labelled("remedy", (item.remedy,))
    known = {name for item in found if item.cause == "host.unreachable" for name in item.hosts}
    told += [
        f"not read: {item.host or 'controller'}: {item.observed}" for item in unread(case) if item.host not in known
    ]
    return told


def _labelled(label: str, texts: Sequence[str]) -> list[str]:
    found = []
    for place, text in enumerate(texts):
        head = f"   {label + ':':<9} " if place == 0 else " " * 13
        found += textwrap.wrap(
            text, _WIDTH, initial_indent=head, subsequent_indent=" " * 13, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
    return found
