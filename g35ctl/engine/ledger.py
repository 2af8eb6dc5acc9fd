"""The ledger: what is known to hold, host by host and stage by stage, and what it was made from.

``<state>/ledger.json``. It is written after every stage a host completes (temporary file, fsync, rename), so that a
controller that dies loses at most the stage it was in.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g35ctl.content import content_root
from g35ctl.engine.stages import APPLIED, stage_plans
from g35ctl.errors import G35Error
from g35ctl.plan.digest import host_stage_digest
from g35ctl.plan.model import HostPlan, Plan

SCHEMA_VERSION = 1
#: directories whose content decides what a stage does to a host; what templates say is in the plan, rendered
_CONTENT = ("plugins/modules", "plugins/module_utils", "roles", "playbooks")
#: parts of them that never change a host: what looks, what proves, and what writes files for switches
_LOOKING = (
    "playbooks/discover.yml", "playbooks/preflight.yml", "playbooks/switches.yml", "playbooks/validate.yml",
    "playbooks/verify.yml", "plugins/modules/g35_kv_probe.py", "roles/switch_config", "roles/validate",
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One stage of one host that was applied and read back: what from, when (UTC), by which run."""

    digest: str
    time: str
    run: str


def content_digest(root: Path | None = None) -> str:
    """Digest over the content that travels to hosts: a new release of a role or module must be applied again."""
    root = root or content_root()
    summary = hashlib.sha256()
    for directory in _CONTENT:
        for path in sorted((root / directory).rglob("*")):
            name = path.relative_to(root)
            if any(name.is_relative_to(part) for part in _LOOKING) or "__pycache__" in path.parts:
                continue
            if path.is_file() and path.suffix in (".py", ".yml"):
                summary.update(f"{name}\0".encode())
                summary.update(path.read_bytes())
    return summary.hexdigest()


def stage_digest(host: HostPlan, stage: str, content: str) -> str:
    """Digest of everything that a stage makes of this host: its plans and the content that applies them."""
    return hashlib.sha256(f"{host_stage_digest(host, stage)} {content}".encode()).hexdigest()


def site_digest(plan: Plan, content: str) -> str:
    """Digest of everything that is planned for the site, and of the content that applies it."""
    return hashlib.sha256(f"{plan.digest} {content}".encode()).hexdigest()


def write_atomically(path: Path, data: Any, mode: int = 0o600) -> None:
    """Write JSON so that a reader or a crash sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        json.dump(data, handle, indent=1, sort_keys=True)
        handle.write("\n")
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)


def read_json(path: Path, what: str) -> dict[str, Any]:
    """A JSON mapping, or an empty one where the file does not exist. Raises G35Error when it is damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise G35Error(
            f"the {what} cannot be read: {path}",
            why=str(error),
            next_command=f"move {path} away; the next deploy then replays every stage and writes a new one",
        ) from error
    if not isinstance(data, dict):
        raise G35Error(f"the {what} is not a JSON object: {path}", next_command=f"move {path} away")
    return data


class Ledger:
    """The ledger of one site. Safe to use from several threads; each :meth:`record` is on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.Lock()
        data = read_json(path, "ledger")
        version = data.get("schema_version", SCHEMA_VERSION)
        if version != SCHEMA_VERSION:
            raise G35Error(
                f"the ledger {path} was written by another release (schema {version})",
                next_command=f"move {path} away; the next deploy then replays every stage",
            )
        self._hosts: dict[str, dict[str, Entry]] = {
            host: {stage: Entry(**entry) for stage, entry in stages.items()}
            for host, stages in data.get("hosts", {}).items()
        }
        self._proof = Entry(**data["proof"]) if data.get("proof") else None

    def entry(self, host: str, stage: str) -> Entry | None:
        """What is recorded of a host's stage."""
        return self._hosts.get(host, {}).get(stage)

    def hosts(self) -> tuple[str, ...]:
        """Hosts of which something is recorded, sorted."""
        return tuple(sorted(host for host, stages in self._hosts.items() if stages))

    def matches(self, host: HostPlan, stage: str, content: str) -> bool:
        """True when the stage was last applied from exactly this plan and content."""
        entry = self.entry(host.name, stage)
        return entry is not None and entry.digest == stage_digest(host, stage, content)

    def record(self, hosts: Sequence[HostPlan], stage: str, content: str, time: str, run: str) -> None:
        """The stage was applied to these hosts and read back just now."""
        with self._guard:
            for host in hosts:
                self._hosts.setdefault(host.name, {})[stage] = Entry(stage_digest(host, stage, content), time, run)
            if hosts:
                self._save()

    def record_proof(self, digest: str, time: str, run: str) -> None:
        """The whole site, as planned in ``digest``, passed its validation just now."""
        with self._guard:
            self._proof = Entry(digest, time, run)
            self._save()

    def proof(self, digest: str) -> Entry | None:
        """The validation that still stands for this plan: nothing was applied to any host since."""
        return self._proof if self._proof is not None and self._proof.digest == digest else None

    def forget(self, hosts: Sequence[str], stages: Sequence[str]) -> None:
        """The stages are about to be applied again: until that has ended well, nothing is known of them or proven."""
        with self._guard:
            proven, self._proof = self._proof, None
            known = [self._hosts[host] for host in hosts if host in self._hosts]
            dropped = [stages_of.pop(stage) for stages_of in known for stage in stages if stage in stages_of]
            if dropped or proven:
                self._save()

    def _save(self) -> None:
        hosts = {
            host: {stage: vars(entry) for stage, entry in stages.items()}
            for host, stages in self._hosts.items()
            if stages
        }
        proof = vars(self._proof) if self._proof else None
        write_atomically(self.path, {"schema_version": SCHEMA_VERSION, "hosts": hosts, "proof": proof})


def first_stage_to_apply(host: HostPlan, holding: Sequence[str]) -> str:
    """The first stage of this host that is not in ``holding``; empty when all hold."""
    for stage in APPLIED:
        if stage_plans(host, stage) and stage not in holding:
            return stage
    return ""


def save_ownership(
    path: Path, owners: dict[str, str], slots: dict[str, int] | None = None, sets: Iterable[Sequence[str]] = ()
) -> None:
    """Add decisions to the ownership record (plan/custody.py): owners, and the places of their stores, by UUID; and the
    striped sets of these namespaces, which replace those that they were part of."""
    data = read_json(path, "ownership record")
    before = dict(data)
    for name, decided in (("namespaces", owners), ("slots", slots or {})):
        if decided:
            data[name] = {**dict(data.get(name, {})), **decided}
    kept = [list(item) for item in data.get("sets", ()) if not set(item) & set(owners)]
    kept += [list(item) for item in sets]
    if kept or "sets" in data:
        data["sets"] = sorted(kept)
    if data != before:
        write_atomically(path, data)
