"""Writes a commented site that passes ``g35ctl check``, to be corrected to what is really there."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.site.sizes import format_size, parse_size

_NAME = re.compile(r"^[a-z0-9]([a-z0-9.-]{0,30})$")
_DEVICE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$")
# The last octets of boxes begin here; hosts follow at the next hundred.
_FIRST_BOX = 11


@dataclass(frozen=True)
class Answers:
    """What a new site is to look like. Raises :class:`G35Error` (exit 2) naming everything that cannot be.

    ``rails`` maps a name to (subnet, network device of the hosts); ``ssd_size`` is a size such as 7.68TB.
    """

    name: str = "mysite"
    boxes: int = 1
    hosts: int = 2
    ssds: int = 4
    ssd_size: str = "7.68TB"
    driver: str = "static"
    transport: str = "rdma"
    mtu: int = 9000
    rails: tuple[tuple[str, str, str], ...] = (
        ("a", "192.0.2.0/24", "enp65s0f0np0"),
        ("b", "198.51.100.0/24", "enp65s0f1np1"),
    )

    def __post_init__(self) -> None:
        problems = self._problems()
        if problems:
            raise G35Error(
                "no such site can be made",
                why="\n".join(problems),
                next_command="correct the options, see g35ctl init --help",
                exit_code=Exit.USAGE,
            )

    def _problems(self) -> list[str]:
        found = []
        if not _NAME.match(self.name):
            found.append(f"name {self.name!r} is not of a-z, 0-9, dot and hyphen (31 at most)")
        for what, value, most in (("boxes", self.boxes, 64), ("hosts", self.hosts, 1000), ("ssds", self.ssds, 64)):
            if not 1 <= value <= most:
                found.append(f"{what} {value} is not within 1 to {most}")
        try:
            if parse_size(self.ssd_size) < 300 * 2**20:
                found.append(f"ssd size {self.ssd_size} is below the 300 MiB that XFS needs")
        except ValueError as error:
            found.append(f"ssd size: {error}")
        if self.driver not in ("static", "nvmet"):
            found.append(f"driver {self.driver!r} is not static or nvmet")
        if self.transport not in ("rdma", "tcp"):
            found.append(f"transport {self.transport!r} is not rdma or tcp")
        if not (4200 if self.transport == "rdma" else 1280) <= self.mtu <= 9216:
            found.append(f"mtu {self.mtu} is not within 1280 to 9216, or below the 4200 that rdma needs")
        return found + self._rail_problems()

    def _rail_problems(self) -> list[str]:
        found: list[str] = []
        networks: list[IPv4Network] = []
        if not self.rails:
            found.append("there is no rail")
        if len({name for name, _, _ in self.rails}) < len(self.rails):
            found.append("two rails have one name")
        for name, subnet, device in self.rails:
            try:
                network = ip_network(subnet)
            except ValueError as error:
                found.append(f"rail {name!r}: {error}")
                continue
            if not isinstance(network, IPv4Network) or network.num_addresses < _needed(self.boxes, self.hosts):
                found.append(f"rail {name!r}: {subnet} has too few IPv4 addresses for {self.hosts} hosts")
                continue
            if any(network.overlaps(other) for other in networks):
                found.append(f"rail {name!r}: {subnet} overlaps the subnet of another rail")
            networks.append(network)
            if not _DEVICE.match(device):
                found.append(f"rail {name!r}: {device!r} is not the name of a network device")
        return found


def _first_host(boxes: int) -> int:
    return 101 if boxes <= 101 - _FIRST_BOX else _FIRST_BOX + boxes


def _needed(boxes: int, hosts: int) -> int:
    return _first_host(boxes) + hosts + 1


def files(answers: Answers) -> Mapping[str, str]:
    """The site's files by relative path. The same answers give the same text."""
    boxes = [f"ebof{number + 1}" for number in range(answers.boxes)]
    hosts = [f"gpu{number + 1}" for number in range(answers.hosts)]
    found = {
        ".gitignore": "# State of g35ctl (runs, ledger, ownership), and keys that it makes.\n.g35/\n.keys/\n",
        "hosts.yml": _hosts(answers, boxes, hosts),
        "group_vars/all.yml": _everyone(answers),
    }
    for number, name in enumerate(boxes):
        found[f"host_vars/{name}.yml"] = _box(answers, name, _FIRST_BOX + number)
    for number, name in enumerate(hosts):
        found[f"host_vars/{name}.yml"] = _host(answers, _first_host(answers.boxes) + number)
    return found


def write(directory: Path, answers: Answers, *, force: bool = False) -> tuple[Path, ...]:
    """Write the site; what else lies in the directory stays. Raises G35Error when it is not empty, unless ``force``."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())) and not force:
        raise G35Error(
            f"{directory} exists and is not an empty directory",
            next_command=f"g35ctl init {directory} --force overwrites the files of a site in it",
            exit_code=Exit.USAGE,
        )
    written = []
    for name, text in files(answers).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written.append(path)
    return tuple(written)


def _hosts(answers: Answers, boxes: list[str], hosts: list[str]) -> str:
    def listed(names: list[str], indent: str = "    ") -> str:
        return "".join(f"{indent}{name}:\n" for name in names)

    return f"""---
# The hosts of site {answers.name}. How to reach a host (ansible_host, ansible_user) belongs in host_vars;
# g35ctl trust pins their host keys.

# EBOF boxes. With driver static nobody logs in to them; with nvmet they are ordinary Linux hosts.
ebof:
  hosts:
{listed(boxes)}
# Hosts that run inference. They own the flash too, unless a group cache_owners names others.
gpu_hosts:
  hosts:
{listed(hosts)}
# The one host that runs the Mooncake master.
mooncake_masters:
  hosts:
{listed(hosts[:1])}"""


def _everyone(answers: Answers) -> str:
    rails = "".join(f"    - name: {name}\n      subnet: {subnet}\n" for name, subnet, _ in answers.rails)
    return f"""---
# What holds for the whole site. Every variable and its default: docs/variables.md.
g35_site:
  name: {answers.name}
  # Consent to steps that interrupt something live; otherwise deploy --allow-disruptive gives it.
  allow_disruptive: false

g35_fabric:
  transport: {answers.transport}
  # 9000 on hosts and at least 9216 on switches; RDMA needs 4200.
  mtu: {answers.mtu}
  # One network for each data NIC port of a host.
  rails:
{rails}  # How storage traffic is marked and queued, the same on hosts and switches. PFC is on for `priority` alone.
  traffic:
    dscp: 26
    priority: 3
    cnp_dscp: 48
    cnp_priority: 6
    bandwidth_percent: 50
  # NICs without DCB (no PFC, no ETS) are refused unless this says `unavailable`.
  lossless: required

# How hosts connect to namespaces. Host identities are derived from the site and the host name.
g35_nvme:
  io_queues: 8
  queue_size: 128
  controller_loss_timeout: 600

g35_storage:
  mount_root: /var/lib/g35/flash
  # Share of each file system, in percent, that stays free.
  reserve_percent: 10

g35_mooncake:
  version: 0.3.13.post1
  # mooncake-transfer-engine (CUDA 12), mooncake-transfer-engine-cuda13, or mooncake-transfer-engine-non-cuda.
  distribution: mooncake-transfer-engine-non-cuda
  master:
    # Longer than the longest prefill load.
    lease: 60s
    eviction_high_watermark: 0.8
    client_ttl: 10
  store:
    # Memory of each store, one for each namespace a host owns: segment + buffer.
    segment_size: 4GiB
    local_buffer_size: 1280MiB
    # Stay well below segment_size x (1 - watermark), or keys are lost before they reach flash.
    bucket_size: 256MiB

# The final stage of a deployment.
g35_validate:
  value_size: 1MiB
  keys: 8
  # What the tier is sized for: g35ctl plan and g35ctl simulate predict with it (docs/simulate.md).
  # workload:
  #   config_json: ../models/our-model/config.json
  #   users: [8, 16, 32, 48]
  #   tiers: {{memory: 250GB}}
"""


def _box(answers: Answers, name: str, octet: int) -> str:
    portals = "".join(
        f"    - address: {ip_network(subnet)[octet]}\n      rail: {rail}\n" for rail, subnet, _ in answers.rails
    )
    namespaces = ""
    for number in range(answers.ssds):
        identity = uuid.uuid5(uuid.NAMESPACE_URL, f"g35ctl:{answers.name}:{name}:ssd{number}")
        namespaces += f"    - nqn: nqn.2026-01.io.g35ctl:{answers.name}:{name}:ssd{number}\n"
        namespaces += f"      uuid: {identity}\n      size: {answers.ssd_size}\n"
        if answers.driver == "nvmet":
            namespaces += f"      device: /dev/disk/by-id/nvme-MODEL_{name.upper()}-SSD{number}\n"
    ports = f"\n{_ports(answers, octet)}" if answers.driver == "nvmet" else ""
    told = {
        "static": "# The box is configured by its own means; copy NQN, UUID and size of each namespace from it.",
        "nvmet": "# A Linux host whose SSDs g35ctl exports; correct the device of each namespace (ls /dev/disk/by-id).",
    }[answers.driver]
    total = format_size(parse_size(answers.ssd_size) * answers.ssds)
    return f"""---
{told}
# {answers.ssds} namespaces, {total} together. A namespace has one owner: the planner chooses and keeps it,
# or `owner: gpu1` pins it.{ports}
g35_ebof:
  driver: {answers.driver}
  portals:
{portals}  namespaces:
{namespaces}"""


def _host(answers: Answers, octet: int) -> str:
    return f"---\n# Data NIC ports: one on each rail.{_ports(answers, octet)}"


def _ports(answers: Answers, octet: int) -> str:
    ports = "".join(
        f"  - netdev: {device}\n    rail: {rail}\n    address: {ip_network(subnet)[octet]}\n"
        for rail, subnet, device in answers.rails
    )
    return f"\ng35_ports:\n{ports}"
