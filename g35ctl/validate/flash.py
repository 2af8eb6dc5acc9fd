"""Functional checks of the data path: what one host writes lives on an owner's flash and is read equal by all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from g35ctl.observe.model import LOCAL_DISK, Back, Written
from g35ctl.plan.model import HostPlan
from g35ctl.validate.judging import Judging, listed
from g35ctl.validate.verdict import Verdict

_SHOWN = 3


def judge(judging: Judging) -> Iterator[Verdict]:
    """For every writer and owner where the values are; for every reader of them whether they are equal; flash hits."""
    probers = [host for host in judging.plan.hosts if host.probe is not None]
    for writer in probers:
        for owner in _owners(writer):
            yield _placement(judging, writer, owner)
            for reader in probers:
                yield _equal(judging, writer, owner, reader)
    for reader in probers:
        yield _hits(judging, reader)


def _owners(host: HostPlan) -> tuple[str, ...]:
    return () if host.probe is None else tuple(host.probe.segments)


def _values(judging: Judging, writer: str, owner: str) -> tuple[Written, ...]:
    found = judging.readings.writes.get(writer)
    return () if found is None else tuple(item for item in found.values if item.owner == owner)


def _placement(judging: Judging, writer: HostPlan, owner: str) -> Verdict:
    assert writer.probe is not None
    count = writer.probe.keys
    wanted = f"{count} of {count} values only on flash of {owner}"
    missing = judging.missing("probe.write", writer.name)
    values = _values(judging, writer.name, owner)
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


def _equal(judging: Judging, writer: HostPlan, owner: str, reader: HostPlan) -> Verdict:
    assert writer.probe is not None
    count = writer.probe.keys
    wanted = f"{count} of {count} values byte-equal"
    subject = f"from {writer.name} on {owner}"
    missing = judging.missing("probe.write", writer.name) or judging.missing("probe.read", reader.name)
    if missing:
        told, holds = missing, False
    else:
        back = {item.key: item for item in judging.readings.reads[reader.name].values}
        keys = [item.key for item in _values(judging, writer.name, owner)]
        equal = [key for key in keys if key in back and back[key].equal]
        told = f"{len(equal)} of {count} values byte-equal"
        told += _differences([key for key in keys if key not in equal], back)
        holds = len(equal) == count
    remedy = "do not put this tier into service: " if "not equal" in told else ""
    remedy += f"see the log of the stores of {owner} and of the master, and paths.live of {owner}"
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
