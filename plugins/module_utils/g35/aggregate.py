"""All stages of a host in one module execution: preflight before a deploy, verify instead of a replay.

One ssh session and one Python start per host, however many stages it takes part in. ``find`` gives the ``build``
function of a stage: the modules hand it in, so that this file imports no stage.
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from . import host_checks
from .converge import Finding, Stage
from .host import Host, facts
from .schema import SchemaError
from .support import INSTALLERS, RDMA_ONLY, STRIPE_TOOL, SUPPORTED, SYSTEMS, TLS_TOOL, TOOLS, Tool

STAGES = ("target", "fabric", "connect", "storage", "cache", "inference")

Builder = Callable[[Host, Dict[str, Any]], Stage]


def preflight(host: Host, plans: Mapping[str, Dict[str, Any]], find: Callable[[str], Builder]) -> Dict[str, Any]:
    """Everything that would stop a deploy on this host, from the system itself to each stage's own preconditions."""
    state = system_state(host)
    judged = system_findings(host, state, plans)
    judged.extend(_around(host_checks.preflight, host, state, plans))
    for name, plan in _in_order(plans):
        stage, problem = _build(host, name, plan, find)
        if stage is None:
            judged.append((name, problem))
            continue
        judged.extend((name, finding) for finding in _guarded(name, stage.preflight))
    return _result("preflight", judged, {"system": state})


def verify(host: Host, plans: Mapping[str, Dict[str, Any]], find: Callable[[str], Builder]) -> Dict[str, Any]:
    """Read every stage and judge it against its plan. A stage that cannot be read does not hide the others."""
    judged: List[Tuple[str, Finding]] = []
    state: Dict[str, Any] = {"system": system_state(host)}
    for name, plan in _in_order(plans):
        stage, problem = _build(host, name, plan, find)
        if stage is None:
            judged.append((name, problem))
            continue
        for finding in _guarded(name, lambda stage=stage, name=name: _read(stage, name, state)):  # type: ignore[misc]
            judged.append((name, finding))
    judged.extend(_around(host_checks.verify, host, state, plans))
    return _result("verify", judged, state)


def _around(
    look: Callable[[Host, Dict[str, Any], Mapping[str, Dict[str, Any]]], List[Tuple[str, Finding]]],
    host: Host,
    state: Dict[str, Any],
    plans: Mapping[str, Dict[str, Any]],
) -> List[Tuple[str, Finding]]:
    """What the host's surroundings say; that they cannot be looked at is told, and stops nothing."""
    try:
        return look(host, state, plans)
    except Exception as error:  # any failure to look is a warning: the stages judge for themselves
        observed = "%s: %s" % (type(error).__name__, error)
        return [("preflight", Finding("system.read", "host", observed, "readable", "see the host's log", "warning"))]


def _read(stage: Stage, name: str, state: Dict[str, Any]) -> List[Finding]:
    seen = stage.read()
    state[name] = seen
    return stage.findings(seen)


def _in_order(plans: Mapping[str, Dict[str, Any]]) -> List[Tuple[str, Dict[str, Any]]]:
    return [(name, plans[name]) for name in STAGES if plans.get(name)]


def _build(
    host: Host, name: str, plan: Dict[str, Any], find: Callable[[str], Builder]
) -> Tuple[Optional[Stage], Finding]:
    try:
        return find(name)(host, plan), Finding("", "", "", "", "")
    except SchemaError as error:
        finding = Finding(
            "%s.plan" % name, name, "; ".join(error.problems), "a valid plan", "use the plan that g35ctl computes"
        )
        return None, finding


def _guarded(name: str, judge: Callable[[], List[Finding]]) -> List[Finding]:
    """What ``judge`` finds; an error of its own becomes a finding, because the other stages still have to be told."""
    try:
        return list(judge())
    except Exception as error:  # any failure to read one stage is that stage's finding
        observed = "%s: %s" % (type(error).__name__, error)
        return [Finding("%s.read" % name, name, observed, "a state that can be read", "see the host's log")]


def _result(action: str, judged: List[Tuple[str, Finding]], state: Dict[str, Any]) -> Dict[str, Any]:
    findings = []
    seen = set()
    for stage, finding in judged:
        item = asdict(finding)
        item["stage"] = stage
        key = tuple(sorted(item.items()))
        if key not in seen:
            seen.add(key)
            findings.append(item)
    errors = [item for item in findings if item["severity"] == "error"]
    message = "; ".join("%(check)s %(subject)s: %(observed)s, expected %(expected)s" % item for item in errors)
    return {
        "action": action,
        "changed": False,
        "failed": bool(errors),
        "msg": message,
        "changes": [],
        "findings": findings,
        "state": state,
    }


def system_state(host: Host) -> Dict[str, Any]:
    """Kernel, distribution, Python, init system and clock of a host."""
    found: Dict[str, Any] = dict(facts(host))
    found["python"] = "%d.%d.%d" % sys.version_info[:3]
    found["root"] = os.geteuid() == 0
    found["systemd"] = host.exists("/run/systemd/system")
    sync = host.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"], timeout=10.0)
    found["time_synchronized"] = sync.out.strip() == "yes" if sync.ok else None
    return found


def system_findings(
    host: Host, state: Mapping[str, Any], plans: Mapping[str, Dict[str, Any]]
) -> List[Tuple[str, Finding]]:
    """Judgement of the system: never silently passes one that is not supported."""
    found: List[Finding] = []
    family = _family(state)
    if family is None:
        observed = "%s %s" % (state["id"] or "unknown system", state["version"])
        found.append(
            Finding("system.supported", "os-release", observed.strip(), SUPPORTED, "install a supported system")
        )
    if not state["root"]:
        found.append(
            Finding("system.root", "user", "uid %d" % os.geteuid(), "root", "set ansible_become or connect as root")
        )
    if not state["systemd"]:
        found.append(
            Finding("system.systemd", "init", "systemd is not running", "systemd", "boot this host with systemd")
        )
    if sys.version_info < (3, 9):
        found.append(
            Finding(
                "system.python",
                "python3",
                str(state["python"]),
                "Python 3.9 or later",
                "set ansible_python_interpreter to a newer Python",
            )
        )
    found.extend(_missing_tools(host, family, plans))
    return [("preflight", item) for item in found]


def _family(state: Mapping[str, Any]) -> Optional[str]:
    versions, family = SYSTEMS.get(str(state["id"]), ((), ""))
    version = str(state["version"])
    accepted = any(version == prefix or version.startswith(prefix + ".") for prefix in versions)
    # openEuler writes 22.03 as VERSION_ID "22.03" and service packs elsewhere, so a dot or the end must follow.
    return family if accepted else None


def _missing_tools(host: Host, family: Optional[str], plans: Mapping[str, Dict[str, Any]]) -> List[Finding]:
    """One finding for all that is missing, with one command that installs it."""
    wanted: Dict[str, Tool] = {}
    for name, plan in _in_order(plans):
        if name == "inference" and not _loads_mooncake(plan):
            continue
        transport = plan.get("transport", "rdma") if isinstance(plan, dict) else "rdma"
        for tool in TOOLS[name]:
            if transport == "rdma" or tool.name not in RDMA_ONLY:
                wanted[tool.name] = tool
        if isinstance(plan, dict) and plan.get("tls"):
            wanted[TLS_TOOL.name] = TLS_TOOL
        if isinstance(plan, dict) and plan.get("sets"):
            wanted[STRIPE_TOOL.name] = STRIPE_TOOL
    missing = [tool for tool in wanted.values() if not _present(host, tool)]
    if not missing:
        return []
    packages = sorted({tool.package(family or "debian") for tool in missing})
    command = "%s %s" % (INSTALLERS[family or "debian"], " ".join(packages))
    names = ", ".join(sorted(tool.name for tool in missing))
    return [Finding("system.packages", "packages", "missing: %s" % names, "installed", command)]


def _loads_mooncake(plan: Any) -> bool:
    """Whether an engine of the plan joins the pool from an environment of this host: an image brings its libraries, and
    routers need none."""
    engines = plan.get("engines") or [] if isinstance(plan, dict) else []
    return any(item.get("sharing") and (item.get("program") or {}).get("mode") == "pip" for item in engines)


def _present(host: Host, tool: Tool) -> bool:
    if tool.paths:
        return any(host.exists(path) for path in tool.paths)
    return any(host.exists("%s/%s" % (place, tool.name)) for place in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"))
