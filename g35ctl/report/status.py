"""The state of a tier on one screen, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from g35ctl.exits import Exit
from g35ctl.observe.model import Pool
from g35ctl.site.sizes import format_size
from g35ctl.validate.judging import Judging
from g35ctl.validate.look import Look
from g35ctl.validate.paths import live_paths
from g35ctl.verdict import Grade, Verdict

SCHEMA_VERSION = 1
_MOST = 20


@dataclass(frozen=True)
class BoxStatus:
    """A box: how many of its namespaces are exported on every portal, and to their owner alone; and who owns how many
    of them."""

    name: str
    reached: bool
    namespaces: int
    exported: int
    fenced: int
    owners: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class HostStatus:
    """A host: paths, mounts and stores, as they are and as planned; flash in bytes, None where not read. ``roce_bytes``
    is what RDMA moved since its ports came up, ``roce_rate`` bytes per second since the look before."""

    name: str
    reached: bool
    paths_live: int
    paths: int
    mounted: int
    mounts: int
    stores_healthy: int
    stores: int
    flash_size: int | None
    flash_used: int | None
    master: bool
    roce_bytes: int | None = None
    roce_rate: float | None = None


@dataclass(frozen=True)
class PoolStatus:
    """The KV pool as the master tells it; bytes. ``hit_rate`` is the share of questions for a key that had an answer:
    since the look before, else since the master started. Rates are bytes per second since the look before."""

    role: str
    ready: bool
    segments: int
    segments_planned: int
    protocols: tuple[str, ...]
    file_capacity: int | None
    file_capacity_planned: int
    file_used: int | None
    keys: int | None
    gets: int | None = None
    gets_found: int | None = None
    file_hit_bytes: int | None = None
    memory_hit_bytes: int | None = None
    hit_rate: float | None = None
    file_rate: float | None = None
    memory_rate: float | None = None


@dataclass(frozen=True)
class Status:
    """A tier at one moment. ``problems`` are the FAIL and WARN verdicts, ``unread`` why hosts are silent."""

    site: str
    taken: str
    transport: str
    emulated: bool
    boxes: tuple[BoxStatus, ...]
    hosts: tuple[HostStatus, ...]
    pool: PoolStatus | None
    problems: tuple[Verdict, ...]
    unread: tuple[str, ...]

    @property
    def exit_code(self) -> Exit:
        """0 healthy, also with warnings; 5 when a host did not answer, 1 when something else is wrong."""
        if not all([item.reached for item in self.boxes] + [item.reached for item in self.hosts]):
            return Exit.UNREACHABLE
        failed = self.unread or any(item.grade is Grade.FAIL for item in self.problems)
        return Exit.DEPLOY_FAILED if failed else Exit.OK

    @property
    def warnings(self) -> int:
        """Verdicts that hold, but should be known."""
        return sum(item.grade is Grade.WARN for item in self.problems)

    def to_json(self) -> dict[str, Any]:
        """The JSON document, in the form that every verb uses."""
        data = asdict(self)
        failed = [item for item in self.problems if item.grade is Grade.FAIL]
        return {
            "schema_version": SCHEMA_VERSION,
            "ok": self.exit_code is Exit.OK,
            **data,
            "failures": [
                {
                    "host": item.host,
                    "stage": "verify",
                    "check": item.check,
                    "subject": item.subject,
                    "observed": item.observed,
                    "expected": item.expected,
                    "remedy": item.remedy,
                }
                for item in failed
            ],
        }


def build(look: Look) -> Status:
    """The status of what was looked at. Pure."""
    judging = Judging(look.plan, look.readings)
    pool = judging.pool()
    return Status(
        site=look.plan.site,
        taken=look.taken.isoformat(timespec="seconds"),
        transport=look.site.fabric.transport,
        emulated=look.readings.emulated,
        boxes=tuple(_box(look, host.name) for host in look.plan.hosts if host.target is not None),
        hosts=tuple(
            _host(look, host.name)
            for host in look.plan.hosts
            if host.connect is not None or host.storage is not None or host.cache is not None
        ),
        pool=None if pool is None else _pool(look, pool),
        problems=tuple(item for item in look.verdicts if item.grade in (Grade.FAIL, Grade.WARN)),
        unread=tuple(f"{item.host or 'controller'}: {item.observed}; {item.remedy}" for item in look.failures),
    )


def _passed(look: Look, host: str, check: str) -> int:
    return sum(item.grade is Grade.PASS for item in look.verdicts if (item.host, item.check) == (host, check))


def _box(look: Look, name: str) -> BoxStatus:
    target = look.plan.host(name).target
    assert target is not None
    return BoxStatus(
        name=name,
        reached=name not in look.readings.unreached,
        namespaces=len(target.namespaces),
        exported=_passed(look, name, "target.export"),
        fenced=_passed(look, name, "target.fence"),
        owners=_owners(look, name),
    )


def _owners(look: Look, box: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in look.plan.ownership:
        if item.box == box:
            found[item.owner] = found.get(item.owner, 0) + 1
    return found


def _host(look: Look, name: str) -> HostStatus:
    plan = look.plan.host(name)
    paths = plan.connect.paths if plan.connect is not None else ()
    store = plan.cache.store if plan.cache is not None else None
    # Namespaces of a striped set have one file system together.
    found = look.readings.file_systems.get(name, ())
    mounted = list({item.stripe or item.uuid: item for item in found if item.mounted}.values())
    return HostStatus(
        name=name,
        reached=name not in look.readings.unreached,
        paths_live=len(live_paths(paths, look.readings.controllers.get(name, ()))),
        paths=len(paths),
        mounted=_passed(look, name, "mount.namespace"),
        mounts=len(plan.storage.mounts) if plan.storage is not None else 0,
        stores_healthy=_passed(look, name, "store.health"),
        stores=len(store.instances) if store is not None else 0,
        flash_size=sum(item.size for item in mounted) if mounted else None,
        flash_used=sum(item.size - item.free for item in mounted) if mounted else None,
        master=plan.cache is not None and plan.cache.master is not None,
        roce_bytes=_moved(look, name),
    )


def _moved(look: Look, name: str) -> int | None:
    told = [port.roce_bytes for port in look.counters.get(name, ()) if port.roce_bytes is not None]
    return sum(told) if told else None


def with_rates(before: Status, after: Status) -> Status:
    """``after`` with what happened since ``before``: throughput, and the hit rate of that time. Pure.

    A counter that went backwards (a restart) gives no rate.
    """
    seconds = (datetime.fromisoformat(after.taken) - datetime.fromisoformat(before.taken)).total_seconds()
    if seconds <= 0:
        return after
    earlier = {host.name: host.roce_bytes for host in before.hosts}
    hosts = tuple(
        replace(host, roce_rate=_rate(earlier.get(host.name), host.roce_bytes, seconds)) for host in after.hosts
    )
    pool, old = after.pool, before.pool
    if pool is not None and old is not None:
        asked, found = _grown(old.gets, pool.gets), _grown(old.gets_found, pool.gets_found)
        pool = replace(
            pool,
            hit_rate=found / asked if asked and found is not None else pool.hit_rate if asked is None else None,
            file_rate=_rate(old.file_hit_bytes, pool.file_hit_bytes, seconds),
            memory_rate=_rate(old.memory_hit_bytes, pool.memory_hit_bytes, seconds),
        )
    return replace(after, hosts=hosts, pool=pool)


def _grown(before: int | None, after: int | None) -> int | None:
    return after - before if before is not None and after is not None and after >= before else None


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    grown = _grown(before, after)
    return None if grown is None else grown / seconds


def _pool(look: Look, pool: Pool) -> PoolStatus:
    stores = [
        store
        for host in look.plan.hosts
        if host.cache is not None and host.cache.store is not None
        for store in host.cache.store.instances
    ]
    return PoolStatus(
        role=pool.role,
        ready=pool.ready,
        segments=len(pool.segments),
        segments_planned=len(stores),
        protocols=tuple(sorted({item.protocol for item in pool.segments})),
        file_capacity=pool.file_capacity,
        file_capacity_planned=sum(item.capacity for item in stores),
        file_used=pool.file_used,
        keys=pool.keys,
        gets=pool.gets,
        gets_found=pool.gets_found,
        file_hit_bytes=pool.file_hit_bytes,
        memory_hit_bytes=pool.memory_hit_bytes,
        hit_rate=pool.gets_found / pool.gets if pool.gets and pool.gets_found is not None else None,
    )


def lines(status: Status) -> list[str]:
    """The screen as plain lines."""
    word = {Exit.OK: "HEALTHY", Exit.UNREACHABLE: "NOT FULLY READ"}.get(status.exit_code, "NOT HEALTHY")
    emulated = ", emulated fabric" if status.emulated else ""
    warned = f", {status.warnings} warning{'s' * (status.warnings > 1)}" if status.warnings else ""
    told = [f"{word}{warned}: site {status.site}, {status.transport}{emulated}, {status.taken}", ""]
    told += _table(
        ("BOX", "NAMESPACES", "EXPORTED", "FENCED", "OWNERS"),
        [
            (
                box.name,
                str(box.namespaces),
                *((str(box.exported), str(box.fenced)) if box.reached else ("no answer", "")),
                _owner_list(box.owners),
            )
            for box in status.boxes
        ],
    )
    told += _table(
        ("HOST", "PATHS", "MOUNTS", "FLASH USED", "STORES", "RDMA", "ROLE"), [_host_row(host) for host in status.hosts]
    )
    told += _pool_lines(status.pool)
    told += [f"not read: {item}" for item in status.unread]
    told += _problem_lines([item for item in status.problems if item.check != "host.reached" or not status.unread])
    return told


def _problem_lines(problems: Sequence[Verdict]) -> list[str]:
    """Each check that does not hold once, however many hosts and subjects it has: the first in full."""
    groups: dict[tuple[Grade, str], list[Verdict]] = {}
    for item in problems:
        groups.setdefault((item.grade, item.check), []).append(item)
    told = []
    for (grade, check), items in list(groups.items())[:_MOST]:
        first = items[0]
        hosts = sorted({item.host for item in items if item.host})
        place = f" on {', '.join(hosts[:8])}" if hosts else ""
        place += f" and {len(hosts) - 8} more" if len(hosts) > 8 else ""
        times = f" ({len(items)} times), first" if len(items) > 1 else ""
        subject = f" {first.subject}" if first.subject else ""
        told.append(f"{grade.value} {check}{place}{times}{subject}: {first.observed}, expected {first.expected}")
        if first.remedy:
            told.append(f"     {first.remedy}")
    if len(groups) > _MOST:
        told.append(f"and {len(groups) - _MOST} more checks: g35ctl -o json status")
    return told


def _owner_list(owners: Mapping[str, int]) -> str:
    listed = [f"{owner} {count}" for owner, count in sorted(owners.items())[:8]]
    return ", ".join(listed) + (f" and {len(owners) - 8} more" if len(owners) > 8 else "")


def _speed(rate: float | None) -> str:
    return "-" if rate is None else f"{format_size(round(rate))}/s"


def _host_row(host: HostStatus) -> tuple[str, ...]:
    role = "master" if host.master else ""
    if not host.reached:
        return (host.name, "no answer", "", "", "", "", role)
    used = "-"
    if host.flash_size is not None and host.flash_used is not None:
        used = f"{format_size(host.flash_used)} of {format_size(host.flash_size)}"
    return (
        host.name,
        f"{host.paths_live}/{host.paths} live",
        f"{host.mounted}/{host.mounts}",
        used,
        f"{host.stores_healthy}/{host.stores} healthy",
        _speed(host.roce_rate),
        role,
    )


def _pool_lines(pool: PoolStatus | None) -> list[str]:
    if pool is None:
        return ["POOL  the master does not answer"]
    ready = "ready" if pool.ready else "not ready"
    capacity = "?" if pool.file_capacity is None else format_size(pool.file_capacity)
    used = "?" if pool.file_used is None else format_size(pool.file_used)
    now = pool.file_rate is not None or pool.memory_rate is not None
    hits = "nothing asked" if pool.hit_rate is None else f"{pool.hit_rate:.1%} of questions found"
    served = f"from flash {_speed(pool.file_rate)}, from memory {_speed(pool.memory_rate)}"
    if not now:
        totals = [
            format_size(item) if item is not None else "?" for item in (pool.file_hit_bytes, pool.memory_hit_bytes)
        ]
        served = f"from flash {totals[0]}, from memory {totals[1]}"
    return [
        f"POOL  master {pool.role or 'without role'}, {ready}; segments {pool.segments}/{pool.segments_planned}"
        f" over {' and '.join(pool.protocols) or 'nothing'}; flash {used} used of {capacity}"
        f" (planned {format_size(pool.file_capacity_planned)}); keys {'?' if pool.keys is None else pool.keys}",
        f"READS {'since the look before' if now else 'since the master started'}: {hits}; {served}",
    ]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    aligned = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [*aligned, ""]
