"""Functional checks of the data path: what one host writes lives on an owner's flash and is read equal by all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from g35ctl.observe.model import LOCAL_DISK, Back, Written
from g35ctl.plan.model import HostPlan
from g35ctl.validate.judging import Judging, listed
from g35ctl.verdict import Verdict

_SHOWN = 3
DETAILED = 8
"""With more probing hosts than this, a reader gets one verdict over all values instead of one per writer and owner."""


@dataclass(frozen=True)
class _Pair:
    """A host that writes, an owner that keeps, and the values between them."""

    writer: HostPlan
    owner: str
    values: tuple[Written, ...]


def judge(judging: Judging) -> Iterator[Verdict]:
    """For every writer and owner where the values are; for every reader of them whether they are equal; flash hits."""
    probers = [host for host in judging.plan.hosts if host.probe is not None]
    pairs = [
        _Pair(writer, owner, _values(judging, writer.name, owner)) for writer in probers for owner in _owners(writer)
    ]
    yield _coverage(judging, {pair.owner for pair in pairs})
    for pair in pairs:
        yield _placement(judging, pair)
    for reader in probers:
        if len(probers) <= DETAILED:
            for pair in pairs:
                yield _equal(judging, [pair], reader, f"from {pair.writer.name} on {pair.owner}")
        else:
            yield _equal(judging, pairs, reader, "from all writers on all owners")
        yield _hits(judging, reader)


def _coverage(judging: Judging, written: set[str]) -> Verdict:
    """Without a probe that writes to an owner, nothing below says anything about it."""
    owners = [host.name for host in judging.plan.hosts if host.cache is not None and host.cache.store is not None]
    left_out = [name for name in owners if name not in written]
    told = f"all but {listed(left_out)}" if left_out else f"all {len(owners)}"
    remedy = "every owner needs a data port and a master: see g35ctl plan"
    wanted = f"all {len(owners)}"
    return judging.verdict("flash.coverage", told == wanted, told, wanted, subject="owners written to", remedy=remedy)


def _owners(host: HostPlan) -> tuple[str, ...]:
    return () if host.probe is None else tuple(host.probe.segments)


def _values(judging: Judging, writer: str, owner: str) -> tuple[Written, ...]:
    found = judging.readings.writes.get(writer)
    return () if found is None else tuple(item for item in found.values if item.owner == owner)


def _placement(judging: Judging, pair: _Pair) -> Verdict:
    writer, owner, values = pair.writer, pair.owner, pair.values
    assert writer.probe is not None
    count = writer.probe.keys
    wanted = f"{count} of {count} values only on flash of {owner}"
    missing = judging.missing("probe.write", writer.name)
    wrong = [item for item in values if item.problem or not _on_flash_of(item, writer.probe.segments[owner])]
    told = missing or f"{len(values) - len(wrong)} of {count} values only on flash of {owner}"
    if wrong:
        told += "; " + "; ".join(f"{item.key}: {_where(item)}" for item in wrong[:_SHOWN])
    remedy = "see the store's log for FILE_WRITE_FAIL and free space; then run: g35ctl validate"
    holds = not missing and not wrong and len(values) == count
    return judging.verdict(
        "flash.placement", holds, told, wanted, host=writer.name, subject=f"to {owner}", remedy=remedy
    )


def _on_flash_of(value: Written, segments: tuple[str, ...]) -> bool:
    """Every replica is on flash, and in one of these stores."""
    return bool(value.replicas) and all(
        replica.kind == LOCAL_DISK and replica.segment in segments for replica in value.replicas
    )


def _where(value: Written) -> str:
    if value.problem:
        return value.problem
    return listed(f"{replica.kind} {replica.segment}".strip() for replica in value.replicas)


def _equal(judging: Judging, pairs: Sequence[_Pair], reader: HostPlan, subject: str) -> Verdict:
    count = sum(pair.writer.probe.keys for pair in pairs if pair.writer.probe is not None)
    wanted = f"{count} of {count} values byte-equal"
    missing = judging.missing("probe.read", reader.name)
    missing = missing or next(filter(None, (judging.missing("probe.write", pair.writer.name) for pair in pairs)), "")
    if missing:
        told, holds = missing, False
    else:
        back = {item.key: item for item in judging.readings.reads[reader.name].values}
        keys = [item.key for pair in pairs for item in pair.values]
        equal = sum(key in back and back[key].equal for key in keys)
        told = f"{equal} of {count} values byte-equal"
        told += _differences([key for key in keys if key not in back or not back[key].equal], back)
        holds = equal == count
    remedy = "do not put this tier into service: " if "not equal" in told else ""
    remedy += "see the logs of the owners' stores and of the master, and paths.live of the owners"
    return judging.verdict("flash.read", holds, told, wanted, host=reader.name, subject=subject, remedy=remedy)


def _differences(keys: Sequence[str], back: dict[str, Back]) -> str:
    told = []
    for key in keys[:_SHOWN]:
        found = back.get(key)
        told.append(f"{key}: {'not read' if found is None else found.problem or 'not equal'}")
    return "".join(f"; {item}" for item in told)


def _hits(judging: Judging, reader: HostPlan) -> Verdict:
    assert reader.probe is not None
    missing = judging.missing("probe.read", reader.name)
    wanted = "the master's file_cache_hit_nums_ rises by every value read"
    if missing:
        told, holds = missing, False
    else:
        found = judging.readings.reads[reader.name]
        rise = found.hits_after - found.hits_before
        told = f"{found.hits_before} before, {found.hits_after} after reading {len(found.values)} values"
        holds = bool(found.values) and rise >= len(found.values)
    remedy = "the values did not come from flash: see flash.placement, and whether all stores run with offload"
    return judging.verdict("flash.hits", holds, told, wanted, host=reader.name, remedy=remedy)
