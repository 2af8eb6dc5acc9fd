"""What the benchmark suites do, host by host: pure, the same plan and site always giving the same jobs.

A suite's rounds are the same for all hosts and each host gets its own steps of them. Within a round no host and no box
takes part in two measurements that are not meant to disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible.module_utils.g35.bench_jobs import (
    BenchJob,
    FabricJob,
    FabricRound,
    GatePlan,
    PairStep,
    Point,
    StorageJob,
    StorageRound,
    StoreJob,
    Target,
)
from ansible.module_utils.g35.plans import FabricPort

from g35ctl.plan.cache import segment
from g35ctl.plan.model import HostPlan, Ownership, Plan
from g35ctl.plan.storage import file_system_bytes
from g35ctl.site.model import Site

PAIRS_PER_BOX = 8
"""A box is measured with this many hosts: enough for a bad port to show, few enough for a fleet."""
LATENCY_BLOCK = 4096
#: seconds a tool may need around its measurement; emulated guests need minutes
_AROUND = 60
_AROUND_EMULATED = 240
#: slower than this nothing real is, bytes per second: bounds how long writing files and values may take
_SLOWEST = 20_000_000
_SLOWEST_EMULATED = 400_000


def gate(plan: Plan, site: Site, token: str, members: Sequence[str]) -> GatePlan:
    """The members' meeting place: the first of them, at its first rail address."""
    ports = {name: _ports(plan.host(name)) for name in members}
    return GatePlan(
        address=ports[members[0]][0].address,
        port=site.validation.ports,
        token=token,
        conductor=members[0],
        members=tuple(members),
        addresses=tuple(port.address for name in members for port in ports[name]),
        patience=_AROUND_EMULATED if site.validation.emulated else _AROUND,
    )


def _ports(host: HostPlan) -> tuple[FabricPort, ...]:
    return host.fabric.ports if host.fabric is not None else ()


def _around(site: Site) -> int:
    return _AROUND_EMULATED if site.validation.emulated else _AROUND


def _moving(site: Site, amount: int) -> int:
    """Seconds that moving so many bytes may take at most."""
    return amount // (_SLOWEST_EMULATED if site.validation.emulated else _SLOWEST) + _around(site)


def least_seconds(jobs: Mapping[str, BenchJob]) -> int:
    """How long the measurements of a suite take when everything else takes no time."""
    found = 0
    for job in jobs.values():
        if job.fabric is not None:
            found = max(found, len(job.fabric.rounds) * job.fabric.seconds)
        if job.storage is not None:
            found = max(found, sum(len(item.points) for item in job.storage.rounds) * job.storage.seconds)
    return found


# --- fabric ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two hosts to measure between; the client drives the test."""

    client: str
    server: str


def fabric_jobs(plan: Plan, site: Site, token: str) -> dict[str, BenchJob]:
    """The fabric suite of every host with data ports; empty where there are no two of them or no RDMA."""
    wanted = site.validation.fabric
    hosts = [host for host in plan.hosts if _ports(host)]
    rounds = list(_fabric_rounds(hosts, site)) if site.fabric.transport == "rdma" else []
    if not rounds:
        return {}
    where = gate(plan, site, token, [host.name for host in hosts])
    return {
        host.name: BenchJob(
            fabric=FabricJob(
                host=host.name,
                gate=where,
                ports=_ports(host),
                rounds=tuple(
                    FabricRound(
                        item.name, item.seconds, tuple(s for s in item.steps if host.name in (s.client, s.server))
                    )
                    for item in rounds
                ),
                seconds=wanted.seconds,
                latency_iterations=wanted.latency_iterations,
                queue_pairs=wanted.queue_pairs,
                depth=wanted.depth,
                tos=site.fabric.traffic.type_of_service,
                first_port=site.validation.ports,
                emulated=site.validation.emulated,
            )
        )
        for host in hosts
    }


def _fabric_rounds(hosts: Sequence[HostPlan], site: Site) -> Iterator[FabricRound]:
    wanted = site.validation.fabric
    seconds = 2 * wanted.seconds + _around(site)
    largest = max(wanted.sizes)
    for rail in site.fabric.rails:
        if rail.subnet.version != 4 or (wanted.rails and rail.name not in wanted.rails):
            continue  # perftest connects over IPv4 only
        here = {
            host.name: port for host in hosts for port in reversed(_ports(host)) if port.rail == rail.name
        }  # a host with two ports on one rail takes part with the first
        boxes = [host.name for host in hosts if host.name in here and host.target is not None]
        others = [host.name for host in hosts if host.name in here and host.target is None]
        tests = [("write", size) for size in wanted.sizes] + [("read", size) for size in wanted.sizes]
        for number, group in enumerate(rounds_of(pairs(others, boxes))):
            for test, size in (*tests, ("latency", 64)):
                name = f"{rail.name} {test} {size} {number}"
                steps = tuple(_step(name, test, size, rail.name, here, pair) for pair in group)
                yield FabricRound(name, seconds, steps)
        for receiver in [*others[:1], *boxes[:1]]:
            senders = [name for name in (*others, *boxes) if name != receiver][: wanted.incast]
            if len(senders) > 1:
                name = f"{rail.name} incast {largest} {receiver}"
                steps = tuple(
                    _step(name, "incast", largest, rail.name, here, Pair(sender, receiver)) for sender in senders
                )
                yield FabricRound(name, seconds, steps)


def _step(name: str, test: str, size: int, rail: str, here: Mapping[str, FabricPort], pair: Pair) -> PairStep:
    client, server = here[pair.client], here[pair.server]
    return PairStep(
        key=f"{name} {pair.client}-{pair.server}",
        test=test,
        rail=rail,
        server=pair.server,
        client=pair.client,
        server_address=server.address,
        client_address=client.address,
        server_netdev=server.netdev,
        client_netdev=client.netdev,
        size=size,
    )


def pairs(hosts: Sequence[str], boxes: Sequence[str]) -> tuple[Pair, ...]:
    """Each host with the next one in a ring, and each box with up to PAIRS_PER_BOX hosts, every host with some box."""
    found = [Pair(name, hosts[(place + 1) % len(hosts)]) for place, name in enumerate(hosts) if len(hosts) > 1]
    if len(hosts) == 2:
        found = found[:1]  # the way back is measured by reading
    for place, box in enumerate(boxes):
        mine = [name for number, name in enumerate(hosts) if number % len(boxes) == place] or list(hosts)
        step = max(1, len(mine) // PAIRS_PER_BOX)
        found += [Pair(name, box) for name in mine[::step][:PAIRS_PER_BOX]]
    return tuple(found)


def rounds_of(wanted: Sequence[Pair]) -> tuple[tuple[Pair, ...], ...]:
    """The pairs in as few rounds as come out when each is put into the first in which neither end is busy."""
    rounds: list[list[Pair]] = []
    busy: list[set[str]] = []
    for pair in wanted:
        ends = {pair.client, pair.server}
        place = next((number for number, taken in enumerate(busy) if not taken & ends), len(rounds))
        if place == len(rounds):
            rounds.append([])
            busy.append(set())
        rounds[place].append(pair)
        busy[place] |= ends
    return tuple(tuple(item) for item in rounds)


# --- storage ---------------------------------------------------------------------------------------------------------


def storage_jobs(plan: Plan, site: Site, token: str) -> dict[str, BenchJob]:
    """The storage suite of every owner, and of the boxes g35ctl logs in to; empty where no box has a namespace."""
    wanted = site.validation.storage
    boxes = {host.name for host in site.hosts if host.box is not None}
    owned = [item for item in plan.ownership if item.box in boxes]
    if not owned:
        return {}
    targets = {item.uuid: _target(plan, item) for item in owned}
    rounds = tuple(_storage_rounds(plan, site, owned))
    members = [
        host.name
        for host in plan.hosts
        if _ports(host) and (host.target is not None or any(item.owner == host.name for item in owned))
    ]
    where = gate(plan, site, token, members)

    def mine(name: str, test: str, uuids: Sequence[str]) -> tuple[Target, ...]:
        key = "box" if test == "local" else "owner"
        return tuple(targets[uuid] for uuid in uuids if getattr(targets[uuid], key) == name)

    return {
        name: BenchJob(
            storage=StorageJob(
                host=name,
                site=plan.site,
                gate=where,
                ports=_ports(plan.host(name)),
                rounds=tuple(
                    StorageRound(item.name, item.test, item.seconds, item.points, mine(name, item.test, uuids))
                    for item, uuids in rounds
                ),
                seconds=wanted.seconds,
                file_size=wanted.file_size,
                engine=wanted.engine,
                raw=wanted.mode == "raw",
                jobs=wanted.jobs,
            )
        )
        for name in members
    }


def _storage_rounds(
    plan: Plan, site: Site, owned: Sequence[Ownership]
) -> Iterator[tuple[StorageRound, tuple[str, ...]]]:
    wanted = site.validation.storage
    everything = tuple(item.uuid for item in owned)
    deepest = max(wanted.queue_depths)
    one = wanted.seconds + 10
    if wanted.mode == "file":
        most = max(sum(item.owner == owner for item in owned) for owner in {item.owner for item in owned})
        yield StorageRound("layout", "layout", _moving(site, wanted.file_size * most)), everything
    points = tuple(Point(size, depth) for size in wanted.block_sizes for depth in wanted.queue_depths)
    seconds = len(points) * one + _around(site)
    for number, group in enumerate(one_at_a_time(owned)):
        yield StorageRound(f"namespaces alone, {number}", "namespace", seconds, points), group
    raw = wanted.mode == "raw"
    # Where a file of a striped set lies on one SSD is not known; a box that has nothing else is not compared.
    first = tuple({item.box: item.uuid for item in reversed(owned) if raw or not item.stripe}.values())
    logged_in = {host.name for host in plan.hosts if host.target is not None}
    latency = (Point(LATENCY_BLOCK, 1),)
    seconds = len(first) * one + _around(site)
    yield StorageRound("remote latency", "remote", seconds, latency), first
    if logged_in:
        yield StorageRound("local latency", "local", seconds, latency), first
    for size in wanted.block_sizes:
        name = f"all at once, {size} bytes"
        yield StorageRound(name, "aggregate", one + _around(site), (Point(size, deepest),)), everything
    named = {str(uuid) for uuid in wanted.write_namespaces}
    writing = tuple(uuid for uuid in everything if uuid in named)
    if writing:
        block = min(wanted.block_sizes, key=lambda size: abs(size - 2**20))
        yield StorageRound("write", "write", one + _around(site), (Point(block, deepest, "randwrite"),)), writing


def one_at_a_time(owned: Sequence[Ownership]) -> tuple[tuple[str, ...], ...]:
    """Namespaces in rounds in which no owner and no box has two of them."""
    left: dict[tuple[str, str], list[str]] = {}
    for item in owned:
        left.setdefault((item.owner, item.box), []).append(item.uuid)
    rounds = rounds_of([Pair(item.owner, item.box) for item in owned])
    return tuple(tuple(left[pair.client, pair.server].pop(0) for pair in group) for group in rounds)


def _target(plan: Plan, item: Ownership) -> Target:
    owner, box = plan.host(item.owner), plan.host(item.box)
    mounts = owner.storage.mounts if owner.storage is not None else ()
    stores = owner.cache.store.instances if owner.cache is not None and owner.cache.store is not None else ()
    exports = box.target.namespaces if box.target is not None else ()
    store = next((store for store in stores if item.uuid in store.members), None)
    shared = [item.size]
    if item.stripe:
        # Its namespaces have one file system and one store together; each gets an equal part of the room for files.
        shared = [other.size for other in plan.ownership if other.stripe == item.stripe]
    taken = store.capacity if store is not None else 0
    return Target(
        uuid=item.uuid,
        nqn=item.nqn,
        nsid=item.nsid,
        box=item.box,
        owner=item.owner,
        mount_point=next((mount.mount_point for mount in mounts if mount.uuid == item.uuid), ""),
        device=next((export.device for export in exports if export.uuid == item.uuid), ""),
        room=max(0, file_system_bytes(sum(shared)) - taken) // len(shared),
    )


# --- store -----------------------------------------------------------------------------------------------------------


def store_limits(plan: Plan) -> tuple[int, int]:
    """The largest value that every owner's share of memory has room for, and the largest that fits a flash bucket."""
    segments = [
        sum(item.segment_size for item in host.cache.store.instances) // 8
        for host in plan.hosts
        if host.cache is not None and host.cache.store is not None and host.cache.store.instances
    ]
    buckets = [host.probe.bucket_size for host in plan.hosts if host.probe is not None and host.probe.bucket_size]
    return min(segments, default=0), min(buckets, default=0)


def store_jobs(plan: Plan, site: Site, token: str) -> dict[str, BenchJob]:
    """The store suite of every host that has Mooncake and data ports; empty where nobody owns a store."""
    wanted = site.validation.store
    hosts = [host for host in plan.hosts if host.probe is not None and _ports(host)]
    stores = {
        host.name: host.cache.store.instances
        for host in hosts
        if host.cache is not None and host.cache.store is not None
    }
    owners = list(stores)
    if not owners or min(wanted.sizes) > store_limits(plan)[0]:
        return {}
    where = gate(plan, site, token, [host.name for host in hosts])
    room, bucket = store_limits(plan)
    found: dict[str, BenchJob] = {}
    for number, host in enumerate(hosts):
        instances = stores.get(host.name, ())
        # Everybody reads from somebody else; hosts that own nothing are spread over the owners.
        place = owners.index(host.name) - 1 if host.name in stores else number
        budget = sum(item.segment_size for item in instances) // 4
        assert host.probe is not None
        found[host.name] = BenchJob(
            store=StoreJob(
                host=host.name,
                gate=where,
                ports=_ports(host),
                probe=host.probe,
                source=owners[place % len(owners)],
                segments=tuple(segment(item) for item in instances),
                sizes=tuple(size for size in wanted.sizes if size <= room),
                flash_sizes=tuple(size for size in wanted.flash_sizes if size <= min(room, bucket)),
                bytes=wanted.bytes,
                budget=budget,
                batch=wanted.batch,
                flash_timeout=wanted.flash_timeout,
                round_seconds=_moving(site, 2 * min(wanted.bytes, max(budget, 1))),
                transfer_seconds=wanted.transfer_seconds,
                transfer_threads=wanted.transfer_threads,
            )
        )
    return found
