"""What the benchmark suites ask of one host: computed by g35ctl/plan/bench.py, loaded by the module with schema.load.

A suite is a list of rounds that all hosts take together: nobody begins a round before everybody has come to it (see
:mod:`.gate`), so that what is measured at once begins at once and nothing else runs meanwhile. A host gets its own
steps of each round. Sizes are bytes, times seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Tuple

from .plans import FabricPort, ProbePlan


@dataclass(frozen=True)
class GatePlan:
    """Where the hosts of a suite meet. ``conductor`` is the member that keeps the gate at ``address``; only members
    (``addresses``) are answered. ``patience`` bounds how long the others may be away beyond a round's own time."""

    address: str
    port: int
    token: str
    conductor: str
    members: Tuple[str, ...]
    addresses: Tuple[str, ...]
    patience: int = 120


@dataclass(frozen=True)
class PairStep:
    """One perftest run between two hosts. ``key`` names it; ``test`` is write, read, latency or incast."""

    key: str
    test: str
    rail: str
    server: str
    client: str
    server_address: str
    client_address: str
    server_netdev: str
    client_netdev: str
    size: int


@dataclass(frozen=True)
class FabricRound:
    """Steps that run at the same time; those of this host only. ``seconds`` is how long a round may take."""

    name: str
    seconds: int
    steps: Tuple[PairStep, ...] = ()


@dataclass(frozen=True)
class FabricJob:
    """The fabric suite on one host."""

    host: str
    gate: GatePlan
    ports: Tuple[FabricPort, ...]
    rounds: Tuple[FabricRound, ...]
    seconds: int
    latency_iterations: int
    queue_pairs: int
    depth: int
    tos: int
    first_port: int
    emulated: bool = False


@dataclass(frozen=True)
class Target:
    """A namespace to read. On its owner ``mount_point`` is where its file system is mounted, on its box ``device`` is
    its SSD (``host`` tells which of the two this is). ``room`` is what a file of ours may take, bytes."""

    uuid: str
    nqn: str
    nsid: int
    box: str
    owner: str
    mount_point: str = ""
    device: str = ""
    room: int = 0


@dataclass(frozen=True)
class Point:
    """One setting of fio. ``pattern`` is its rw."""

    block_size: int
    queue_depth: int
    pattern: str = "randread"


@dataclass(frozen=True)
class StorageRound:
    """``test`` is layout, namespace, aggregate, remote, local, write or remove; ``targets`` are this host's."""

    name: str
    test: str
    seconds: int
    points: Tuple[Point, ...] = ()
    targets: Tuple[Target, ...] = ()


@dataclass(frozen=True)
class StorageJob:
    """The storage suite on one host."""

    host: str
    site: str
    gate: GatePlan
    ports: Tuple[FabricPort, ...]
    rounds: Tuple[StorageRound, ...]
    seconds: int
    file_size: int
    engine: str = "libaio"
    raw: bool = False
    jobs: int = 1


@dataclass(frozen=True)
class StoreJob:
    """The store suite on one host: it writes into its own ``segments``, and reads what ``source`` wrote; without a
    source (one host alone) it reads its own. A host that owns nothing only reads. ``budget`` is how much of its
    segments may be filled, bytes; ``round_seconds`` how long the others may take for one size.
    ``transfer_seconds`` is the duration of the transfer engine's own benchmark, 0 leaves it out."""

    host: str
    gate: GatePlan
    ports: Tuple[FabricPort, ...]
    probe: ProbePlan
    source: str
    segments: Tuple[str, ...]
    sizes: Tuple[int, ...]
    flash_sizes: Tuple[int, ...]
    bytes: int
    budget: int
    batch: int
    flash_timeout: int
    round_seconds: int
    transfer_seconds: int = 0
    transfer_threads: int = 4


@dataclass(frozen=True)
class BenchJob:
    """One suite on one host; exactly one of the three is there."""

    fabric: Optional[FabricJob] = None
    storage: Optional[StorageJob] = None
    store: Optional[StoreJob] = None
