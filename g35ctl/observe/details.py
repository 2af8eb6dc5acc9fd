"""What only the doctor looks at: ways to portals, counters, identities, uses of namespaces, agreed queue sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from g35ctl.observe.reading import Reader, StateError

T = TypeVar("T")


@dataclass(frozen=True)
class Way:
    """A portal pinged from one port. ``full`` tells whether ``size`` bytes got there unfragmented, ``answers`` whether
    anything did; both are None where the host has no ping. ``neighbour`` is empty where nobody answered on the port's
    own network."""

    address: str
    source_address: str
    netdev: str
    rail: str
    size: int
    full: bool | None
    answers: bool | None
    neighbour: str = ""
    words: str = ""


@dataclass(frozen=True)
class PortCounters:
    """Counters of a data port that are not zero. ``roce_bytes`` is what RDMA moved, None where the NIC does not say."""

    netdev: str
    device: str = ""
    ethtool: Mapping[str, int] = field(default_factory=dict)
    rdma: Mapping[str, int] = field(default_factory=dict)
    link: Mapping[str, int] = field(default_factory=dict)
    roce_bytes: int | None = None


@dataclass(frozen=True)
class Identity:
    """Who a host says it is to targets: /etc/nvme/hostnqn and /etc/nvme/hostid."""

    host_nqn: str
    host_id: str


@dataclass(frozen=True)
class Use:
    """A namespace of the site that a host sees, and what uses it there. ``owned``: the host's plan has it."""

    nqn: str
    nsid: int
    uuid: str
    device: str
    used_by: tuple[str, ...]
    owned: bool


@dataclass(frozen=True)
class Queue:
    """Entries per queue as agreed with the target for one controller."""

    nqn: str
    rail: str
    controller: str
    entries: int


@dataclass(frozen=True)
class EngineWork:
    """What an inference engine has to do: requests running and waiting, and tokens read and written since its start."""

    name: str
    unit: str
    running: int
    waiting: int
    tokens: int


@dataclass(frozen=True)
class Details:
    """All of it, by host. A host that is absent from a mapping brought nothing of that kind."""

    ways: Mapping[str, tuple[Way, ...]] = field(default_factory=dict)
    counters: Mapping[str, tuple[PortCounters, ...]] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    uses: Mapping[str, tuple[Use, ...]] = field(default_factory=dict)
    queues: Mapping[str, tuple[Queue, ...]] = field(default_factory=dict)
    engines: Mapping[str, tuple[EngineWork, ...]] = field(default_factory=dict)


def read(states: Mapping[str, Mapping[str, Any]]) -> Details:
    """Type what verify brought (host to stage to state). Never raises: a part that is malformed is left out, because
    the stages' own readings already tell a host that cannot be read."""
    found = Details({}, {}, {}, {}, {}, {})
    for host, state in states.items():
        _take(found.ways, host, state, "portals", _ways)
        _take(found.counters, host, state, "counters", _counters)
        _take(found.uses, host, state, "uses", _uses)
        _take(found.identities, host, state, "connect", _identity)
        _take(found.queues, host, state, "connect", _queues)
        _take(found.engines, host, state, "inference", _engines)
    return found


def _take(into: Mapping[str, T], host: str, state: Mapping[str, Any], key: str, extract: Callable[[Reader], T]) -> None:
    if state.get(key) is None:
        return
    assert isinstance(into, dict)
    try:
        into[host] = extract(Reader(state[key], key))
    except StateError:
        return


def _ways(root: Reader) -> tuple[Way, ...]:
    return tuple(
        Way(
            item.text("address"), item.text("source_address"), item.text("netdev"), item.text("rail"),
            item.integer("size"), _truth(item, "full"), _truth(item, "answers"), item.text("neighbour"),
            item.text("words"),
        )
        for item in root.each()
    )  # fmt: skip


def _truth(item: Reader, key: str) -> bool | None:
    found = item.optional(key)
    return None if found is None else found.as_truth()


def _counters(root: Reader) -> tuple[PortCounters, ...]:
    return tuple(
        PortCounters(
            netdev,
            item.optional_text("device") or "",
            _numbers(item, "ethtool"),
            _numbers(item, "rdma"),
            _numbers(item, "link"),
            item.optional_integer("roce_bytes"),
        )
        for netdev, item in root.items()
    )


def _numbers(item: Reader, key: str) -> dict[str, int]:
    return {name: value.as_integer() for name, value in item.get(key).items()}


def _uses(root: Reader) -> tuple[Use, ...]:
    return tuple(
        Use(
            item.text("nqn"), item.integer("nsid"), item.text("uuid"), item.text("device"), item.texts("used_by"),
            item.truth("owned"),
        )
        for item in root.each()
    )  # fmt: skip


def _identity(root: Reader) -> Identity:
    item = root.get("identity")
    return Identity(item.text("host_nqn"), item.text("host_id"))


def _queues(root: Reader) -> tuple[Queue, ...]:
    found = []
    for item in root.get("paths").each():
        zero_based = item.optional_integer("sqsize")
        if item.text("controller") and zero_based is not None and zero_based >= 0:
            found.append(Queue(item.text("nqn"), item.text("rail"), item.text("controller"), zero_based + 1))
    return tuple(found)


def _engines(root: Reader) -> tuple[EngineWork, ...]:
    found = []
    for name, item in root.get("engines").items():
        work = item.optional("work")
        if work is not None:
            numbers = (work.integer("running"), work.integer("waiting"), work.integer("tokens"))
            found.append(EngineWork(name, item.text("unit"), *numbers))
    return tuple(found)
