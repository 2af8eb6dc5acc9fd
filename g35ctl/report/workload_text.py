"""The figures of a workload for people: sections of ``g35ctl plan``."""

from __future__ import annotations

from collections.abc import Iterator

from g35ctl.engine.hitrate import HitCurve
from g35ctl.plan.workload.model import CostFigures, LinkFigures, PathFigures, Range, TierFigures, WorkloadFigures
from g35ctl.report.sections import Section
from g35ctl.site.sizes import format_size

GB = 1e9


def workload_sections(found: WorkloadFigures | None) -> tuple[Section, ...]:
    """Everything that is predicted for the site's workload; nothing without one."""
    if found is None:
        return ()
    return (
        Section("Workload (predicted)", (), tuple((line,) for line in _lines(found))),
        Section(
            "Room for contexts (predicted)", ("tier", "per host", "all hosts", "contexts", "loads one in"),
            tuple(_tier(item) for item in found.tiers),
            frozenset({"per host", "all hosts", "contexts", "loads one in"}),
        ),
        Section(
            "Where each path falls off (predicted)",
            ("path", "decided by", "users", *(f"{number} users" for number in found.users)),
            tuple(_path(item, found.users) for item in found.paths), frozenset({"users"}),
        ),
        Section(
            "Bandwidth, GB/s of each (predicted)",
            ("link", "of them", "at offered rate", "at expected rate", "carries", "full at", ""),
            tuple(_link(item) for item in found.links),
            frozenset({"of them", "at offered rate", "at expected rate", "carries", "full at"}),
        ),
    )  # fmt: skip


def _lines(found: WorkloadFigures) -> Iterator[str]:
    yield f"model {found.model}, {found.attention}; {found.kv_dtype}: {found.bytes_per_token:,.0f} bytes per token"
    yield f"context of {found.context_tokens:,} tokens: {found.context_bytes / GB:.2f} GB" + (
        f", and {format_size(found.state_bytes)} of state per sequence" if found.state_bytes else ""
    )
    yield (
        f"hit rate can reach {found.ceiling:.2%}; {found.offered_rate:g} requests/s offered,"
        f" {found.expected_rate:.2g} expected (prefill decides)"
    )
    if found.endurance is not None:
        wear = found.endurance
        yield (
            f"flash writes {wear.bytes_per_day / 1e12:.3g} TB a day: {wear.dwpd:.2g} drive writes per day of"
            f" {wear.rated:g} rated ({wear.dwpd_offered:.2g} at the offered rate)"
            + ("" if wear.fits else "; too much for these drives")
        )
    yield _cost(found.cost)
    for note in found.notes:
        yield f"note: {note}"


def _cost(found: CostFigures) -> str:
    def span(item: Range, form: str = ",.2f") -> str:
        return f"{item.typical:{form}} ({item.low:{form}}-{item.high:{form}})"

    return (
        f"keeping one context costs {span(found.memory)} {found.currency} in memory,"
        f" {span(found.flash)} in shared flash: {span(found.ratio, '.0f')} to 1, at assumed prices of {found.as_of}"
    )


def _tier(item: TierFigures) -> tuple[str, ...]:
    load = f"{item.load_seconds:.2f} s" if item.load_seconds else "-"
    per_host = "-" if item.shared else format_size(item.per_host)
    return (item.name, per_host, format_size(item.total), f"{item.contexts:,.1f}", load)


def _path(item: PathFigures, users: tuple[int, ...]) -> tuple[str, ...]:
    knee = "any" if item.contexts is None else f"{item.contexts:,.1f}"
    return (item.path, item.tier, knee, *("holds" if item.holds(number) else "falls off" for number in users))


def _link(item: LinkFigures) -> tuple[str, ...]:
    known = item.available > 0
    return (
        item.name, str(item.count), f"{item.needed / GB:,.1f}", f"{item.expected / GB:,.1f}",
        f"{item.available / GB:,.0f}" if known else "not known",
        f"{item.requests:,.1f} requests/s" if known else "",
        "" if item.fits else "too narrow",
    )  # fmt: skip


def curve_sections(found: HitCurve) -> tuple[Section, ...]:
    """Hit rate against capacity on a trace."""
    return (
        Section(
            f"Trace {found.trace} (predicted by kvcache-simulator)", (),
            (
                (
                    f"{found.requests:,} requests of {found.mean_tokens:,.0f} tokens on average, blocks of"
                    f" {found.block_tokens} tokens, {found.bytes_per_token:,.0f} bytes per token",
                ),
                (f"an unlimited cache finds {found.ceiling:.2%}; measured over the second half of the requests",),
            ),
        ),
        Section(
            "Hit rate against capacity", ("tier", "bytes", "LRU", "best possible", ""),
            tuple(
                (
                    item.name, format_size(item.size), f"{item.lru:.2%}", f"{item.optimal:.2%}",
                    "" if item.full else "holds the whole trace",
                )
                for item in found.points
            ),
            frozenset({"bytes", "LRU", "best possible"}),
        ),
    )  # fmt: skip
