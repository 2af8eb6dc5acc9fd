"""Files and systemd units that g35ctl owns: the changes that bring them to their plan.

Also carries this package itself to hosts (``boot_files``), so that the units which restore a host's configuration at
boot run the very code that deployed it.
"""

from __future__ import annotations

import json
import stat
from typing import Any, Dict, List, Sequence, Tuple

# Imported so that it is packed into shipped modules: boot_files sends its source on.
from . import boot  # noqa: F401
from .converge import Change, Finding
from .host import Host
from .plans import File, Unit
from .schema import dump
from .sources import source_of

#: where the shared code and the stage plans live on a host
LIBRARY = "/usr/lib/g35ctl/g35"
CONFIG = "/etc/g35ctl"
#: what was written, and what each unit was last started with: gone after a reboot, which starts everything anew
NOTES = "/run/g35ctl"


def boot_files(stage: str, plan: Any, modules: Sequence[str]) -> Tuple[File, ...]:
    """The files that let a boot unit re-apply ``plan``: the named modules of this package, and the plan.

    ``modules`` are module names of this package ("target", "fabric", ...). Their source is taken from the running
    import, so it works from a checkout and from inside a shipped module's archive alike. The plan is written without
    its own files.
    """
    package = __name__.rpartition(".")[0]
    plans = ("plans", "plan_parts", "plans_cache")
    names = ("__init__", "schema", "host", "converge", "managed", "sources", "boot") + plans + tuple(modules)
    found: List[File] = []
    for name in sorted(set(names)):
        full = package if name == "__init__" else "%s.%s" % (package, name)
        found.append(File("%s/%s.py" % (LIBRARY, name), source_of(full)))
    data = dump(plan)
    data["files"] = []
    data["units"] = []
    found.append(File("%s/%s.json" % (CONFIG, stage), json.dumps(data, indent=1, sort_keys=True) + "\n", "0600"))
    return tuple(found)


def read_files(host: Host, files: Sequence[File]) -> Dict[str, Dict[str, str]]:
    """Content and mode of each planned file that exists."""
    seen: Dict[str, Dict[str, str]] = {}
    for item in files:
        text = host.read(item.path)
        if text is not None:
            mode = stat.S_IMODE(host.path(item.path).stat().st_mode)
            seen[item.path] = {"content": text, "mode": "%04o" % mode}
    return seen


def file_changes(host: Host, files: Sequence[File]) -> List[Change]:
    """Write what is absent or differs (content or mode)."""
    seen = read_files(host, files)
    todo: List[Change] = []
    for item in files:
        have = seen.get(item.path)
        if have == {"content": item.content, "mode": item.mode}:
            continue
        before = "absent" if have is None else _describe(have["content"], have["mode"])
        todo.append(Change(item.path, before, _describe(item.content, item.mode), _writer(host, item)))
    return todo


def _writer(host: Host, item: File) -> Any:
    def write() -> None:
        # Noted first: an apply that is cut off between here and the restart must not leave a unit on an old file.
        note_written(host, item.path, item.content)
        host.write_file(item.path, item.content, int(item.mode, 8), item.owner, item.group)

    return write


def note_written(host: Host, path: str, content: str) -> None:
    """Note what a path that units name in ``restart_on`` is about to hold, until each was started with it."""
    host.write_file(_note("written", path), digest(content), 0o600)


def _note(kind: str, subject: str) -> str:
    return "%s/%s/%s" % (NOTES, kind, digest(subject))


def _written_since_start(host: Host, unit: Unit) -> bool:
    """Whether a file that this unit reads was written by us, in an apply that never came to its restart."""
    seen = _written(host, unit)
    if not seen:
        return False
    try:
        started = json.loads(host.read(_note("started", unit.name)) or "{}")
    except ValueError:
        started = {}
    return any(started.get(path) != note for path, note in seen.items())


def _written(host: Host, unit: Unit) -> Dict[str, str]:
    notes = {path: host.read(_note("written", path)) for path in unit.restart_on}
    return {path: note for path, note in notes.items() if note is not None}


def _starter(host: Host, unit: Unit) -> Any:
    def start() -> None:
        seen = _written(host, unit)
        _call(host, "restart", unit.name)
        if seen:
            host.write_file(_note("started", unit.name), json.dumps(seen, sort_keys=True), 0o600)

    return start


def _describe(content: str, mode: str) -> str:
    # Never the content itself: a diff must not carry what a file may hold.
    return "%d bytes, digest %s, mode %s" % (len(content.encode()), digest(content), mode)


def digest(content: str) -> str:
    """Short content digest for messages and comparisons."""
    import hashlib

    return hashlib.sha256(content.encode()).hexdigest()[:12]


def read_units(host: Host, units: Sequence[Unit]) -> Dict[str, Dict[str, str]]:
    """ActiveState, SubState, UnitFileState, NeedDaemonReload and Result of each unit, in one call of systemctl."""
    if not units:
        return {}
    names = [unit.name for unit in units]
    properties = "Id,ActiveState,SubState,UnitFileState,NeedDaemonReload,Result"
    result = host.run(["systemctl", "show", "--property", properties, "--"] + names)
    seen: Dict[str, Dict[str, str]] = {}
    for name, block in zip(names, result.out.strip("\n").split("\n\n")):
        seen[name] = dict(line.partition("=")[::2] for line in block.splitlines())
    return seen


def unit_changes(host: Host, units: Sequence[Unit], written: Sequence[str] = ()) -> List[Change]:
    """Reload systemd where needed, then enable, start or restart each unit.

    ``written`` are the paths this apply is about to write: a unit that names one of them in ``restart_on`` is
    restarted, and so is one that an earlier apply, cut off in between, left running on what it had before.
    """
    seen = read_units(host, units)
    todo: List[Change] = []
    if any(path.startswith("/etc/systemd/system/") for path in written) or any(
        have.get("NeedDaemonReload") == "yes" for have in seen.values()
    ):
        todo.append(Change("systemd", "unit files changed", "reloaded", lambda: _call(host, "daemon-reload")))
    for unit in units:
        have = seen.get(unit.name, {})
        enabled = have.get("UnitFileState") == "enabled"
        active = have.get("ActiveState") == "active"
        if unit.enabled and not enabled:
            before = have.get("UnitFileState") or "absent"
            todo.append(Change(unit.name, before, "enabled", _caller(host, "enable", unit.name)))
        if unit.active and active and (set(unit.restart_on) & set(written) or _written_since_start(host, unit)):
            todo.append(Change(unit.name, "running an older configuration", "restarted", _starter(host, unit)))
        elif unit.active and not active:
            before = have.get("ActiveState") or "absent"
            todo.append(Change(unit.name, before, "active", _starter(host, unit)))
    return todo


def unit_findings(host: Host, units: Sequence[Unit], check: str) -> List[Finding]:
    """Units that are not enabled or not active although they must be."""
    seen = read_units(host, units)
    found: List[Finding] = []
    for unit in units:
        have = seen.get(unit.name, {})
        state = "%s, %s" % (have.get("ActiveState") or "absent", have.get("UnitFileState") or "absent")
        wanted = "%s, %s" % ("active" if unit.active else "any", "enabled" if unit.enabled else "any")
        bad = (unit.active and have.get("ActiveState") != "active") or (
            unit.enabled and have.get("UnitFileState") != "enabled"
        )
        if bad:
            found.append(Finding(check, unit.name, state, wanted, "journalctl -u %s" % unit.name))
    return found


def removal_changes(host: Host, files: Sequence[File], units: Sequence[Unit]) -> List[Change]:
    """Stop and disable the units, then remove the files: the reverse of what was made."""
    todo: List[Change] = []
    seen = read_units(host, units)
    for unit in reversed(units):
        have = seen.get(unit.name, {})
        if have.get("ActiveState") in ("active", "activating", "failed") or have.get("UnitFileState") == "enabled":
            todo.append(Change(unit.name, "present", "stopped and disabled", _remover(host, unit.name)))
    # The library serves the boot units of every stage on this host; the last one to go takes it along.
    going = {item.path for item in files}
    plans = ["%s/%s" % (CONFIG, name) for name in host.list(CONFIG) if name.endswith(".json")]
    shared = any(path not in going for path in plans)
    for item in files:
        if host.exists(item.path) and not item.path.startswith(LIBRARY + "/"):
            todo.append(Change(item.path, "present", "absent", _unlinker(host, item.path)))
    if host.exists(LIBRARY) and any(path.startswith(LIBRARY + "/") for path in going) and not shared:
        todo.append(Change(LIBRARY, "present", "absent", lambda: _remove_library(host)))
    if any(item.path.startswith("/etc/systemd/system/") and host.exists(item.path) for item in files):
        todo.append(Change("systemd", "unit files removed", "reloaded", lambda: _call(host, "daemon-reload")))
    return todo


def _remove_library(host: Host) -> None:
    for directory in (LIBRARY + "/__pycache__", LIBRARY):
        for name in host.list(directory):
            if name != "__pycache__":
                host.remove_file("%s/%s" % (directory, name))
        host.remove_directory(directory)
    if not host.list(LIBRARY.rpartition("/")[0]):
        host.remove_directory(LIBRARY.rpartition("/")[0])


def _call(host: Host, *arguments: str) -> None:
    # Starting a store or waiting for a portal takes as long as its unit allows; systemd ends it, not we.
    host.must(["systemctl"] + list(arguments), timeout=600)


def _caller(host: Host, verb: str, name: str) -> Any:
    return lambda: _call(host, verb, name)


def _remover(host: Host, name: str) -> Any:
    return lambda: _call(host, "disable", "--now", name)


def _unlinker(host: Host, path: str) -> Any:
    return lambda: host.remove_file(path)
