"""What nvme-cli prints, of any release, as one model.

sysfs (:mod:`.nvme`) decides; this is the second source, for people's questions and for what sysfs does not hold. The
JSON of ``nvme`` changed its shape several times without saying so (2.11 and 2.12 print a tree for ``list``, 2.15 and
3.0 hang controllers below paths, 3.0-rc1 logs to stdout), so shapes are recognised by what is there, never by version.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .nvme import Topology, parse_address

_VERSION = re.compile(r"^nvme version (\d+)\.(\d+)", re.MULTILINE)


class NvmeCliError(ValueError):
    """Output of nvme-cli that cannot be used. ``kind`` is "empty", "malformed" or "refused" (the tool reported an
    error of its own as JSON)."""

    def __init__(self, kind: str, command: str, why: str) -> None:
        super().__init__("%s: %s" % (command, why))
        self.kind = kind


@dataclass(frozen=True)
class CliPath:
    """One controller of a subsystem. ``state`` and ``ana_states`` are empty where the command does not tell them."""

    controller: str
    transport: str
    address: str
    port: str
    source_address: str = ""
    state: str = ""
    ana_states: Tuple[str, ...] = ()


@dataclass(frozen=True)
class CliNamespace:
    """A namespace: device name, namespace identifier (0 where not told) and size in bytes."""

    device: str
    nsid: int
    size: int


@dataclass(frozen=True)
class CliSubsystem:
    """A subsystem with its controllers and namespaces, each sorted by name."""

    name: str
    nqn: str
    host_nqn: str
    paths: Tuple[CliPath, ...]
    namespaces: Tuple[CliNamespace, ...] = ()


@dataclass(frozen=True)
class DiscoveryRecord:
    """An I/O subsystem that a discovery log offers."""

    nqn: str
    transport: str
    family: str
    address: str
    port: str


def document(text: str, command: str = "nvme") -> Any:
    """The JSON value that starts a line, whatever was logged around it. Raises NvmeCliError."""
    if not text.strip():
        raise NvmeCliError("empty", command, "no output")
    decoder, place = json.JSONDecoder(), 0
    for line in text.splitlines(keepends=True):
        blank = len(line) - len(line.lstrip())
        if line[blank : blank + 1] in ("{", "["):
            try:
                value, _ = decoder.raw_decode(text, place + blank)
            except ValueError as error:
                # A log line may begin with a bracket too; a document that is cut off never decodes further down.
                if not line.lstrip().startswith("["):
                    raise NvmeCliError("malformed", command, "not valid JSON: %s" % error) from None
            else:
                return _checked(value, command)
        place += len(line)
    raise NvmeCliError("malformed", command, "no JSON in: %s" % text.strip().splitlines()[0][:120])


def _checked(value: Any, command: str) -> Any:
    if isinstance(value, dict) and set(value) == {"error"}:
        raise NvmeCliError("refused", command, str(value["error"]))
    return value


def parse_version(text: str) -> Tuple[int, int]:
    """Major and minor number from ``nvme version``. Raises NvmeCliError."""
    if not text.strip():
        raise NvmeCliError("empty", "nvme version", "no output")
    found = _VERSION.search(text)
    if found is None:
        raise NvmeCliError("malformed", "nvme version", "no version in: %s" % text.strip().splitlines()[0][:120])
    return int(found.group(1)), int(found.group(2))


def parse_subsystems(text: str, command: str = "nvme list-subsys") -> Tuple[CliSubsystem, ...]:
    """Subsystems from the JSON of ``list-subsys``, of verbose ``list`` or of ``show-topology``. Raises NvmeCliError."""
    value = document(text, command)
    found: List[CliSubsystem] = []
    for holder in _holders(value, command):
        for item in _subsystems_of(holder):
            nqn = item.get("SubsystemNQN") or item.get("NQN")
            if nqn is None:
                raise NvmeCliError("malformed", command, "a subsystem without an NQN")
            host_nqn = _text(holder.get("HostNQN") or _first_host_nqn(item))
            paths = {path.controller: path for path in _paths(item)}
            found.append(
                CliSubsystem(
                    _text(item.get("Subsystem") or item.get("Name")),
                    _text(nqn),
                    host_nqn,
                    tuple(paths[name] for name in sorted(paths)),
                    _namespaces(item),
                )
            )
    return tuple(sorted(found, key=lambda subsystem: (subsystem.nqn, subsystem.name)))


def _holders(value: Any, command: str) -> List[Dict[str, Any]]:
    """The objects that list subsystems: one per host identity from 2.0 on, one for everything before."""
    if isinstance(value, dict) and "Devices" in value:
        value = value["Devices"]
    elif isinstance(value, dict) and "Subsystems" in value:
        value = [value]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise NvmeCliError("malformed", command, "neither a list of hosts nor of subsystems")
    return value


def _subsystems_of(holder: Dict[str, Any]) -> List[Dict[str, Any]]:
    if "Subsystems" in holder:
        return _objects(holder["Subsystems"])
    # 1.x has no level of hosts in its verbose list.
    return [holder] if "SubsystemNQN" in holder else []


def _first_host_nqn(item: Dict[str, Any]) -> str:
    return next((_text(each["HostNQN"]) for each in _objects(item.get("Controllers")) if "HostNQN" in each), "")


def _paths(item: Dict[str, Any]) -> Iterator[CliPath]:
    """Controllers, from whichever level this release hangs them on."""
    for entry in _objects(item.get("Controllers")):
        yield _path(entry, [_text(path.get("ANAState")) for path in _objects(entry.get("Paths"))])
    for entry in _objects(item.get("Paths")):
        yield _path(entry, [_text(entry.get("ANAState"))])
    below: Dict[str, Tuple[Dict[str, Any], List[str]]] = {}
    for namespace in _objects(item.get("Namespaces")):
        for entry in _objects(namespace.get("Paths")):
            inner = entry.get("Controller")
            for controller in _objects(inner) if isinstance(inner, list) else [entry]:
                name = _name(controller)
                below.setdefault(name, (controller, []))[1].append(_text(entry.get("ANAState")))
    for controller, states in below.values():
        yield _path(controller, states)


def _name(entry: Dict[str, Any]) -> str:
    value = entry.get("Controller")
    return _text(value if isinstance(value, str) else entry.get("Name"))


def _path(entry: Dict[str, Any], ana_states: Sequence[str]) -> CliPath:
    address = parse_address(_text(entry.get("Address")))
    return CliPath(
        _name(entry),
        _text(entry.get("Transport")),
        address.get("traddr", ""),
        address.get("trsvcid", ""),
        address.get("host_traddr", ""),
        _text(entry.get("State")),
        tuple(sorted({state for state in ana_states if state})),
    )


def _namespaces(item: Dict[str, Any]) -> Tuple[CliNamespace, ...]:
    own = _objects(item.get("Namespaces"))
    below = [each for entry in _objects(item.get("Controllers")) for each in _objects(entry.get("Namespaces"))]
    found = {each.device: each for each in (_namespace(entry) for entry in own + below)}
    return tuple(found[name] for name in sorted(found))


def _namespace(entry: Dict[str, Any]) -> CliNamespace:
    # In trees "NameSpace" is the device's name; in the simple list it is the identifier, beside "DevicePath".
    label = entry.get("NameSpace")
    device = _text(entry.get("DevicePath") or (label if isinstance(label, str) else entry.get("Name")))
    nsid = entry.get("NSID", label if isinstance(label, int) else 0)
    return CliNamespace(device.rpartition("/")[2], _number(nsid), _number(entry.get("PhysicalSize")))


def parse_devices(text: str, command: str = "nvme list") -> Tuple[CliNamespace, ...]:
    """Namespaces from ``nvme list -o json``, simple or tree. Raises NvmeCliError."""
    value = document(text, command)
    if not isinstance(value, dict) or not isinstance(value.get("Devices"), list):
        raise NvmeCliError("malformed", command, "no list of devices")
    found: List[CliNamespace] = []
    for entry in _objects(value["Devices"]):
        if "DevicePath" in entry:
            found.append(_namespace(entry))
        else:
            found += [namespace for item in _subsystems_of(entry) for namespace in _namespaces(item)]
    return tuple(sorted(found, key=lambda namespace: namespace.device))


def devices_beside(text: str, topology: Topology) -> Tuple[CliNamespace, ...]:
    """``parse_devices``, where no output at all means "no devices" if sysfs agrees. Raises NvmeCliError.

    Releases print nothing, with exit code 0, both when there are no devices and when they could not look.
    """
    if not text.strip() and not any(item.namespaces for item in topology.subsystems):
        return ()
    return parse_devices(text)


def parse_discovery(text: str, command: str = "nvme discover") -> Tuple[DiscoveryRecord, ...]:
    """I/O subsystems of ``nvme discover -o json``; referrals and the discovery subsystem itself are left out.
    Raises NvmeCliError."""
    value = document(text, command)
    records: Optional[Any] = value.get("records") if isinstance(value, dict) else None
    if not isinstance(records, list):
        raise NvmeCliError("malformed", command, "no list of records")
    return tuple(
        DiscoveryRecord(
            *(_text(record.get(key)).strip() for key in ("subnqn", "trtype", "adrfam", "traddr", "trsvcid"))
        )
        for record in _objects(records)
        if _text(record.get("subtype")).strip() == "nvme subsystem"
    )


def _objects(value: Any) -> List[Dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdigit()) else 0
