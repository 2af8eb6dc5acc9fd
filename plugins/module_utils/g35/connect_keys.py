"""The DH-HMAC-CHAP key of a host's controllers: handed over, kept, changed one path after the other, and judged.

A controller that is live proves itself again with a new key without losing its connection. One that was made without a
key cannot learn one and is connected anew. Either way the next path is only touched when this one is live again, so a
wrong key costs one path, never the device.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .connecting import Connector, Judgement, judge, label
from .converge import Change, Finding
from .dhchap import Keys, digest, keys_file, load_keys, problem, read_keys
from .host import Host
from .managed import CONFIG
from .nvme import Controller, Topology, read_topology
from .plans import ConnectPath, ConnectPlan, File, HostKey

KEYS_FILE = CONFIG + "/connect-keys.json"
_REMEDY = "run: g35ctl deploy --only target --only connect"


def handed_over(plan: ConnectPlan, secrets: Optional[Mapping[str, Any]]) -> Optional[Keys]:
    """The keys that came with this run, or None."""
    return load_keys(secrets or {}).get(plan.host_nqn) if plan.authentication else None


def known_keys(host: Host, plan: ConnectPlan, given: Optional[Keys]) -> Optional[Keys]:
    """The keys to connect with: those of this run, else those the host keeps (at boot, and when only looking)."""
    if plan.authentication is None:
        return None
    return given or read_keys(host, KEYS_FILE).get(plan.host_nqn)


def key_files(plan: ConnectPlan, given: Optional[Keys]) -> Tuple[File, ...]:
    """The file that keeps the keys of this run."""
    return (keys_file(KEYS_FILE, {plan.host_nqn: given}),) if given else ()


def preflight_findings(plan: ConnectPlan, given: Optional[Keys]) -> List[Finding]:
    """Keys that cannot be used, told before anything is touched."""
    if plan.authentication is None or given is None:
        return []
    found = []
    wanted = plan.authentication
    for what, path, key, planned in (
        ("key of this host", wanted.key_file, given.key, wanted.digest),
        ("key of the box", wanted.controller_key_file, given.controller_key, wanted.controller_digest),
    ):
        why = problem(key) if key else ""
        if why:
            found.append(Finding("connect.key", what, why, "a DHHC-1 key in %s" % path, "write a whole key there"))
        elif digest(key) != planned:
            found.append(
                Finding("connect.key", what, _named(digest(key)), _named(planned), "%s changed: plan again" % path)
            )
    return found


def held(host: Host, item: Controller) -> Optional[Tuple[str, str]]:
    """Digests of the keys that a live controller uses; None when it was made without one."""
    own = host.read_value("/sys/class/nvme/%s/dhchap_secret" % item.name)
    if own in (None, "", "none"):
        return None
    other = host.read_value("/sys/class/nvme/%s/dhchap_ctrl_secret" % item.name)
    return digest(own or ""), digest("" if other in (None, "none") else other or "")


def read(host: Host, plan: ConnectPlan, judgement: Judgement) -> Dict[str, Any]:
    """Digests only: which key the host keeps, and which ones its live controllers use."""
    kept = read_keys(host, KEYS_FILE).get(plan.host_nqn)
    return {
        "kept": [digest(kept.key), digest(kept.controller_key)] if kept else [],
        "controllers": {item.name: list(held(host, item) or ()) for _, item in judgement.live},
    }


def key_changes(
    host: Host,
    plan: ConnectPlan,
    connector: Connector,
    judgement: Judgement,
    topology: Topology,
    users: Callable[[str], List[str]],
) -> List[Change]:
    """One change per live path that does not use the planned keys; what is not needed any more is removed."""
    if plan.authentication is None:
        if not host.exists(KEYS_FILE):
            return []
        return [Change(KEYS_FILE, "present", "absent", lambda: host.remove_file(KEYS_FILE))]
    todo: List[Change] = []
    for path, item in judgement.live:
        have = held(host, item)
        if have == _wanted(plan.authentication):
            continue
        what, after = "key of %s" % label(path), _named(plan.authentication.digest)
        if have is not None and bool(have[1]) == bool(plan.authentication.controller_digest):
            do = guarded(connector, path, partial(connector.reauthenticate, path, item.name))
            change = Change(what, _named(have[0]), after, do, check="connect.key")
        else:
            # Whether a controller authenticates, and both ways, is settled when it is made.
            others = [other for other in topology.of(path.nqn) if other.live and other.name != item.name]
            used = [] if others else users(path.nqn)
            note = "%s on %s" % (", ".join(used), item.name) if used else ""
            before = _named(have[0]) if have else "connected without one"
            do = guarded(connector, path, _reconnect(connector, path, item))
            change = Change(what, before, after, do, note, "connect.key")
        todo.append(change)
    return todo


def lost_key_changes(host: Host, plan: ConnectPlan, connector: Connector, judgement: Judgement) -> List[Change]:
    """Controllers that are not live and hold another key never will be again: they are made anew."""
    if plan.authentication is None or connector.keys is None:
        return []
    wanted = _wanted(plan.authentication)
    return [
        Change("key of %s" % label(path), _named((held(host, item) or ("", ""))[0]), _named(wanted[0]),
               _reconnect(connector, path, item), check="connect.path")
        for path, item in judgement.in_transit
        if held(host, item) != wanted
    ]  # fmt: skip


def guarded(connector: Connector, path: ConnectPath, do: Callable[[], None]) -> Callable[[], None]:
    """Only while every other path is live. After a failure that holds for nobody, so a wrong key that is tried again
    and again (by the healing timer, by another deploy) never costs a second path."""

    def alone() -> None:
        judgement = judge(connector.plan, read_topology(connector.host))
        down = [other for other in judgement.missing if other != path]
        down += [other for other, _ in judgement.in_transit if other != path]
        if down:
            raise OSError("left alone while another path is not live: %s" % label(down[0]))
        do()

    return alone


def _reconnect(connector: Connector, path: ConnectPath, item: Controller) -> Callable[[], None]:
    def do() -> None:
        if connector.keys is None:
            raise OSError("the key was not handed over: run g35ctl deploy --only connect")
        connector.disconnect([item.name])
        connector.connect([path])
        if path in connector.reasons:
            raise OSError("%s; the other paths stay as they are" % connector.reasons[path])

    return do


def findings(plan: ConnectPlan, state: Mapping[str, Any], judgement: Judgement) -> List[Finding]:
    """Keys that are not as planned, from what :func:`read` returned."""
    if plan.authentication is None:
        return []
    wanted = list(_wanted(plan.authentication))
    found: List[Finding] = []
    if state["kept"] != wanted:
        have = _named(state["kept"][0]) if state["kept"] else "absent"
        found.append(Finding("connect.key", KEYS_FILE, have, _named(wanted[0]), _REMEDY))
    for path, item in judgement.live:
        have = state["controllers"].get(item.name, [])
        if have != wanted:
            observed = _named(have[0]) if have else "connected without a key"
            found.append(Finding("connect.key", label(path), observed, _named(wanted[0]), _REMEDY))
    return found


def _wanted(key: HostKey) -> Tuple[str, str]:
    return key.digest, key.controller_digest


def _named(key_digest: str) -> str:
    return "key %s" % key_digest if key_digest else "no key"
