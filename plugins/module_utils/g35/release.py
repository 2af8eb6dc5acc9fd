"""Letting go of what a host's plans have no more: stores first, then mounts, then connections.

A deploy builds from the bottom up; a namespace is given up from the top down. One execution does all of it, so that no
store is ever left running on a file system that is about to go.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Callable, Dict, List, Mapping

from .converge import RELEASE, Finding, Stage, act
from .host import Host
from .schema import SchemaError

ORDER = ("cache", "storage", "connect")
#: of a host that was shut out: a store or an unmount that waits for a path would wait until the kernel gives it up
FENCED_ORDER = ("connect", "cache", "storage")

Builder = Callable[[Host, Dict[str, Any]], Stage]


def release(
    host: Host,
    plans: Mapping[str, Dict[str, Any]],
    builders: Mapping[str, Builder],
    *,
    fenced: bool = False,
    check: bool = False,
) -> Dict[str, Any]:
    """Let go, stage by stage, until one fails; the result of a module. Consent is the caller's: asking is consenting.

    ``plans`` are what the host keeps. Success is read back: no stale store, mount or controller is left.
    """
    changes: List[Any] = []
    findings: List[Any] = []
    state: Dict[str, Any] = {}
    for name in FENCED_ORDER if fenced else ORDER:
        if not plans.get(name):
            continue
        try:
            outcome = act(builders[name](host, plans[name]), RELEASE, check=check, allow_disruptive=True)
        except SchemaError as error:
            finding = Finding("%s.plan" % name, name, str(error), "a valid plan", "use the plan that g35ctl computes")
            findings.append({**asdict(finding), "stage": name})
            break
        changes += [{**change, "stage": name} for change in outcome.changes]
        findings += [{**finding, "stage": name} for finding in outcome.findings]
        state[name] = outcome.state
        if outcome.failed:
            break
    errors = [item for item in findings if item["severity"] == "error"]
    message = "; ".join("%(check)s %(subject)s: %(observed)s, expected %(expected)s" % item for item in errors)
    return {
        "action": RELEASE,
        "changed": bool(changes),
        "failed": bool(errors),
        "msg": message,
        "changes": changes,
        "findings": findings,
        "state": state,
        "diff": {
            "before": "".join("%(what)s: %(before)s\n" % item for item in changes),
            "after": "".join("%(what)s: %(after)s\n" % item for item in changes),
        },
    }
