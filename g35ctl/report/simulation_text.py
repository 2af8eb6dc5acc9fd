"""A predicted table for people: the columns of the measured one, and its sensitivity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from g35ctl.plan.workload.model import PATHS
from g35ctl.report.sections import Section
from g35ctl.simulation.compare import Compared
from g35ctl.simulation.run import Simulation
from g35ctl.simulation.sensitivity import Case
from g35ctl.site.sizes import format_size
from g35ctl.validate.serving_result import TIERS, CachePath, Row

_FIGURES = frozenset({
    "users", "TTFT mean", "P50", "P90", "P99", "P99/mean", "hit rate", "of highest", "computed", "req/s",
    "offered",
})  # fmt: skip


def simulation_sections(found: Simulation) -> tuple[Section, ...]:
    """The whole prediction."""
    ceiling = found.figures.ceiling
    return (
        Section(f"Predicted, not measured: {found.name}", (), tuple((line,) for line in _lines(found))),
        Section(
            "Three cache paths (predicted; seconds)",
            (
                "users", "path", "TTFT mean", "rounds", "P50", "P90", "P99", "P99/mean", "hit rate", "of highest",
                "computed", "req/s", "offered",
            ),
            tuple(_row(row, found, ceiling) for row in _ordered(found.result.rows)), _FIGURES,
        ),
        Section(
            "Where prompt tokens came from (predicted)", ("users", "path", *TIERS),
            tuple(_shares(row) for row in _ordered(found.result.rows)), frozenset({"users", *TIERS}),
        ),
    )  # fmt: skip


def sensitivity_sections(cases: Sequence[Case]) -> tuple[Section, ...]:
    """What the prediction hangs on."""
    users = cases[0].users
    paths = [path.value for path in CachePath]
    return (
        Section(
            f"One input changed at a time (predicted; {users} users)",
            ("changed", "local holds", *(f"{path} TTFT" for path in paths), *(f"{path} hits" for path in paths)),
            tuple(
                (
                    case.what, "all tried" if case.knee is None else f"{case.knee} users",
                    *(_seconds(case.ttft[path]) for path in paths), *(f"{case.hit_rate[path]:.2%}" for path in paths),
                )
                for case in cases
            ),
            frozenset({"local holds", *(f"{path} {what}" for path in paths for what in ("TTFT", "hits"))}),
        ),
    )  # fmt: skip


def compared_sections(found: Sequence[Compared], run: str) -> tuple[Section, ...]:
    """Measured beside predicted, with the error of each row."""
    told = [item for item in found if not item.calibrated]
    worst = max((abs(item.ttft_error) for item in told), default=0.0)
    points = max((abs(item.hits_error) for item in told), default=0.0)
    return (
        Section(
            f"Measured in {run}, and predicted", (),
            (
                ("calibrated on the cold and the found prompts of the row marked *; all else is predicted",),
                (f"largest error: TTFT mean {worst:.0%}, hit rate {points:.2%} (absolute)",),
            ),
        ),
        Section(
            "TTFT mean (seconds) and hit rate",
            ("users", "path", "measured", "predicted", "error", "hits measured", "hits predicted", "difference"),
            tuple(
                (
                    str(item.users), item.path.value + (" *" if item.calibrated else ""), _seconds(item.measured_ttft),
                    _seconds(item.predicted_ttft), f"{item.ttft_error:+.0%}", f"{item.measured_hits:.2%}",
                    f"{item.predicted_hits:.2%}", f"{100 * item.hits_error:+.2f} points",
                )
                for item in sorted(found, key=lambda item: (item.users, PATHS.index(item.path.value)))
            ),
            frozenset({"users", "measured", "predicted", "error", "hits measured", "hits predicted", "difference"}),
        ),
    )  # fmt: skip


def _ordered(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.users, PATHS.index(row.path.value)))


def _lines(found: Simulation) -> Iterator[str]:
    method, figures = found.result.workload, found.figures
    yield (
        f"{method.nodes} hosts, {method.rate:g} requests/s offered to each, prompts of {method.context:,} tokens that"
        f" grow by {method.new_tokens:,} in {method.rounds} rounds, {method.trials} trials, seed {found.seed}"
    )
    yield f"a context takes {format_size(figures.context_bytes)}; hit rate can reach {figures.ceiling:.2%}"
    for item in figures.paths:
        knee = "holds any number of users" if item.contexts is None else f"holds {item.contexts:,.1f} contexts"
        fallen = found.fallen(CachePath(item.path))
        yield f"{item.path}: {item.tier} {knee}; " + (
            f"falls off at {fallen} users" if fallen else f"flat up to {max(method.users)} users"
        )
    ratio = figures.cost.ratio
    yield (
        f"memory costs {ratio.typical:.0f} times ({ratio.low:.0f}-{ratio.high:.0f}) what shared flash does for the same"
        f" contexts, at assumed prices of {figures.cost.as_of}"
    )


def _row(row: Row, found: Simulation, ceiling: float) -> tuple[str, ...]:
    ttft, hit = row.ttft, row.hit_rate or 0.0
    low, high = found.rounds[row.path, row.users]
    if ttft is None:
        return (str(row.users), row.path.value, *[""] * 11)
    return (
        str(row.users), row.path.value, _seconds(ttft.mean), f"{_seconds(low)}-{_seconds(high)}", _seconds(ttft.p50),
        _seconds(ttft.p90), _seconds(ttft.p99) + ("" if ttft.p99_counts else " (few)"), f"{ttft.tail:.2f}",
        f"{hit:.2%}", f"{hit / ceiling:.2%}" if ceiling else "", f"{row.tokens.computed if row.tokens else 0:,}",
        f"{row.achieved_rate:.2f}", f"{row.offered_rate:g}",
    )  # fmt: skip


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def _shares(row: Row) -> tuple[str, ...]:
    shares = row.tokens.shares() if row.tokens is not None else {}
    return (str(row.users), row.path.value, *(f"{shares[name]:.2%}" if shares.get(name) else "-" for name in TIERS))
