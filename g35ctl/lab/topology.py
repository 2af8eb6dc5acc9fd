"""What a lab consists of: rails, guests, their addresses and disks. Pure data, no I/O."""

from __future__ import annotations

import ipaddress
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from g35ctl.errors import G35Error
from g35ctl.exits import Exit

GROUPS = ("ebof", "gpu_hosts", "cache_owners", "mooncake_masters", "routers", "etcd")
SUITES = ("bookworm", "trixie")

_NAMESPACE = uuid.UUID("6f5c7c2e-35a1-5e0b-9d7b-3a5d20a0f735")
_GUEST_NAME = re.compile(r"[a-z][a-z0-9]{0,9}")
_LAB_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")
_RAIL_NAME = re.compile(r"[a-z][a-z0-9]{0,3}")


@dataclass(frozen=True)
class Rail:
    """One of the parallel data networks. Subnets come from the documentation ranges, so they clash with nothing."""

    name: str
    subnet: str
    netdev: str

    @property
    def rdma_device(self) -> str:
        """The soft-RoCE device that every guest has on this rail."""
        return f"rxe_{self.netdev}"


@dataclass(frozen=True)
class GuestSpec:
    """One virtual machine. ``host_number`` is its last address octet on every rail; ``ssds`` counts NVMe drives."""

    name: str
    host_number: int
    memory_mib: int
    groups: tuple[str, ...]
    ssds: int = 0
    vcpus: int = 1
    suite: str = "bookworm"

    def ssd_serial(self, number: int) -> str:
        """The serial number the guest reads from drive ``number`` (at most 20 characters, as NVMe has it)."""
        return f"{self.name.upper()}-SSD{number}"


@dataclass(frozen=True)
class Topology:
    """A whole lab. Raises :class:`G35Error` at once, naming every problem, when it cannot exist."""

    name: str
    guests: tuple[GuestSpec, ...]
    rails: tuple[Rail, ...]
    ssd_mib: int = 1024

    def __post_init__(self) -> None:
        problems = list(self._problems())
        if problems:
            raise G35Error(
                f"lab {self.name!r} cannot be built",
                why="; ".join(problems),
                next_command="correct the topology",
                exit_code=Exit.USAGE,
            )

    def _problems(self) -> list[str]:
        found = []
        if not _LAB_NAME.fullmatch(self.name):
            found.append(f"lab name {self.name!r} is not one to 16 of a-z, 0-9 and -, starting with a letter")
        if not self.guests:
            found.append("it has no guest")
        for what, values in (
            ("guest name", [guest.name for guest in self.guests]),
            ("host number", [str(guest.host_number) for guest in self.guests]),
            ("rail name", [rail.name for rail in self.rails]),
            ("rail device", [rail.netdev for rail in self.rails]),
        ):
            found += [f"{what} {value!r} is used twice" for value in sorted({v for v in values if values.count(v) > 1})]
        for rail in self.rails:
            if not _RAIL_NAME.fullmatch(rail.name):
                found.append(f"rail name {rail.name!r} is not one to four of a-z and 0-9")
        for guest in self.guests:
            if not _GUEST_NAME.fullmatch(guest.name):
                found.append(f"guest name {guest.name!r} is not one to ten of a-z and 0-9, starting with a letter")
            if not 2 <= guest.host_number <= 250:
                found.append(f"host number {guest.host_number} of {guest.name} is not within 2 to 250")
            if guest.suite not in SUITES:
                found.append(f"suite {guest.suite!r} of {guest.name} is none of {', '.join(SUITES)}")
            found += [f"group {group!r} of {guest.name} is unknown" for group in guest.groups if group not in GROUPS]
        return found

    def guest(self, name: str) -> GuestSpec:
        """The guest called ``name``; a :class:`G35Error` that lists the guests there are otherwise."""
        for guest in self.guests:
            if guest.name == name:
                return guest
        raise G35Error(
            f"the lab has no guest {name!r}",
            why=f"its guests are {', '.join(guest.name for guest in self.guests)}",
            next_command="g35ctl lab status",
            exit_code=Exit.USAGE,
        )

    def rail(self, name: str) -> Rail:
        """The rail called ``name``; a :class:`G35Error` that lists the rails there are otherwise."""
        for rail in self.rails:
            if rail.name == name:
                return rail
        raise G35Error(
            f"the lab has no rail {name!r}",
            why=f"its rails are {', '.join(rail.name for rail in self.rails)}",
            next_command="g35ctl lab status",
            exit_code=Exit.USAGE,
        )

    def address(self, guest: GuestSpec, rail: Rail) -> str:
        """The guest's address on a rail, without prefix length."""
        return str(ipaddress.ip_network(rail.subnet)[guest.host_number])

    def interface(self, guest: GuestSpec, rail: Rail) -> str:
        """The guest's address on a rail, with prefix length."""
        return f"{self.address(guest, rail)}/{ipaddress.ip_network(rail.subnet).prefixlen}"

    def mac(self, guest: GuestSpec, nic: int) -> str:
        """A locally administered MAC address, unique within the lab; ``nic`` 0 is management, rails follow."""
        lab = uuid.uuid5(_NAMESPACE, self.name).bytes
        return "02:" + ":".join(f"{byte:02x}" for byte in (0x35, lab[0], lab[1], guest.host_number, nic))

    def system_uuid(self, guest: GuestSpec) -> str:
        """The DMI system UUID: deterministic, unique for each guest of each lab."""
        return str(uuid.uuid5(_NAMESPACE, f"{self.name}/{guest.name}"))

    def machine_id(self, guest: GuestSpec) -> str:
        """The systemd machine id: deterministic, unique, and different from the DMI UUID."""
        return uuid.uuid5(_NAMESPACE, f"{self.name}/{guest.name}/machine-id").hex

    def to_json(self) -> str:
        """The topology as text that :func:`topology_from_json` reads back."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def suites(self) -> tuple[str, ...]:
        """The Debian suites its guests run, each once."""
        return tuple(dict.fromkeys(guest.suite for guest in self.guests))


def topology_from_json(text: str) -> Topology:
    """The topology that :meth:`Topology.to_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    fields = json.loads(text)
    guests = tuple(GuestSpec(**{**guest, "groups": tuple(guest["groups"])}) for guest in fields.pop("guests"))
    return Topology(guests=guests, rails=tuple(Rail(**rail) for rail in fields.pop("rails")), **fields)


RAILS = (Rail("a", "192.0.2.0/24", "eth1"), Rail("b", "198.51.100.0/24", "eth2"))


def default_topology(
    name: str = "default", suite: str = "bookworm", guest_suites: Mapping[str, str] | None = None
) -> Topology:
    """One EBOF box with four SSDs, two GPU hosts, two rails: the lab behind ``inventories/lab``.

    ``guest_suites`` gives single guests another suite than ``suite``. Raises :class:`G35Error` for an unknown guest.
    """
    lab = Topology(
        name=name,
        guests=(
            GuestSpec("ebof1", 11, 1024, ("ebof",), ssds=4, suite=suite),
            GuestSpec("gpu1", 21, 2048, ("gpu_hosts", "mooncake_masters"), suite=suite),
            GuestSpec("gpu2", 22, 2048, ("gpu_hosts",), suite=suite),
        ),
        rails=RAILS,
    )
    others = {lab.guest(guest).name: other for guest, other in (guest_suites or {}).items()}
    return replace(lab, guests=tuple(replace(guest, suite=others.get(guest.name, suite)) for guest in lab.guests))
