"""How figures become verdicts: against a threshold, against a rating, or only shown where the hardware is emulated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from g35ctl.engine.bench import Measured
from g35ctl.observe.model import Port
from g35ctl.plan.model import Plan
from g35ctl.site.model import Site
from g35ctl.validate.bench_result import CounterChange, Measurement
from g35ctl.validate.doctor.counters import DISCARDS, SEQUENCE, STORM
from g35ctl.verdict import Grade, Verdict

MEASURED = "measured; thresholds do not apply to emulated hardware"
RATING_REMEDY = "state the rating in the inventory to have it judged: docs/validate.md"


@dataclass(frozen=True)
class Limit:
    """What a figure is held against: the lowest rating that limits it, bytes per second, and whose it is. 0 where
    nothing is known."""

    bytes_per_second: float
    of: str = ""

    @staticmethod
    def lowest(limits: Iterable[Limit]) -> Limit:
        """The one that limits; none where none is known."""
        known = [item for item in limits if item.bytes_per_second > 0]
        return min(known, key=lambda item: item.bytes_per_second) if known else Limit(0.0)


@dataclass(frozen=True)
class Grading:
    """Builds the verdicts of one suite. With ``emulated`` a figure is shown and not held against anything."""

    suite: str
    emulated: bool
    verdicts: list[Verdict] = field(default_factory=list)

    def add(
        self, check: str, grade: Grade, observed: str, expected: str, *,
        host: str = "", subject: str = "", remedy: str = "", evidence: str = "",
    ) -> None:  # fmt: skip
        """One verdict; a PASS carries no remedy."""
        told = remedy if grade in (Grade.FAIL, Grade.WARN) else ""
        self.verdicts.append(
            Verdict(self.suite, check, grade, observed, expected, host, subject, told, evidence, self.emulated)
        )

    def share(
        self, check: str, figure: float, limit: Limit, good: float, fair: float, *,
        host: str = "", subject: str = "", remedy: str = "", evidence: str = "", worst: Grade = Grade.FAIL,
    ) -> None:  # fmt: skip
        """A bandwidth (bytes per second) against a share of what limits it; ``worst`` is what a miss costs."""
        observed = gigabytes(figure)
        if self.emulated:
            self.add(check, Grade.PASS, observed, MEASURED, host=host, subject=subject, evidence=evidence)
            return
        if not limit.bytes_per_second:
            observed = f"{observed}; not judged, because no rating is known"
            self.add(check, Grade.SKIP, observed, RATING_REMEDY, host=host, subject=subject, evidence=evidence)
            return
        reached = figure / limit.bytes_per_second
        grade = Grade.PASS if reached >= good else Grade.WARN if reached >= fair else worst
        wanted = f"at least {good:.0%} of {gigabytes(limit.bytes_per_second)} ({limit.of})"
        told = f"{observed}, {reached:.1%}"
        self.add(check, grade, told, wanted, host=host, subject=subject, remedy=remedy, evidence=evidence)

    def at_most(
        self, check: str, figure: float, good: float, fair: float, unit: str, *,
        host: str = "", subject: str = "", remedy: str = "", evidence: str = "",
    ) -> None:  # fmt: skip
        """A figure that should be small."""
        observed = f"{figure:.1f} {unit}"
        if self.emulated:
            self.add(check, Grade.PASS, observed, MEASURED, host=host, subject=subject, evidence=evidence)
            return
        grade = Grade.PASS if figure <= good else Grade.WARN if figure <= fair else Grade.FAIL
        wanted = f"at most {good:g} {unit}"
        self.add(check, grade, observed, wanted, host=host, subject=subject, remedy=remedy, evidence=evidence)

    def at_least(
        self, check: str, figure: float, good: float, fair: float, observed: str, *,
        host: str = "", subject: str = "", remedy: str = "", evidence: str = "",
    ) -> None:  # fmt: skip
        """A ratio that should be near one."""
        if self.emulated:
            self.add(check, Grade.PASS, observed, MEASURED, host=host, subject=subject, evidence=evidence)
            return
        grade = Grade.PASS if figure >= good else Grade.WARN if figure >= fair else Grade.FAIL
        wanted = f"at least {good:g}"
        self.add(check, grade, observed, wanted, host=host, subject=subject, remedy=remedy, evidence=evidence)

    def unmeasured(self, check: str, item: Measurement) -> None:
        """A measurement that came to nothing: it is a failure to run, told beside the verdicts."""
        subject = item.subject if not item.peer else f"{item.peer}, {item.subject}" if item.subject else item.peer
        self.add(
            check, Grade.SKIP, f"not measured: {item.problem}", "a figure",
            host=item.host, subject=subject, evidence=item.evidence,
        )  # fmt: skip

    def counters(self, changes: Sequence[CounterChange], plan: Plan, measured: Measured) -> None:
        """One verdict per port: losses fail, pause in another priority fails, pause and notifications are told."""
        ports: dict[tuple[str, str], list[CounterChange]] = {
            (host, netdev): []
            for host, state in measured.states.items()
            for netdev in (state.get("counters") or {}).get("after") or {}
        }
        for change in changes:
            if change.suite == self.suite:
                ports.setdefault((change.host, change.netdev), []).append(change)
        for (host, netdev), found in ports.items():
            rose = {kind: [item for item in found if item.kind == kind and item.rise] for kind in KINDS}
            bad = [item for kind in BAD for item in rose[kind]]
            told = ", ".join(f"{item.counter} +{item.rise}" for item in bad)
            told = told or ", ".join(
                f"{what} +{sum(item.rise for item in rose[kind])}"
                for kind, what in (("pause", "PFC pause frames"), ("cnp", "congestion notifications"))
                if rose[kind]
            )
            grade = Grade.PASS if not bad else Grade.WARN if self.emulated else Grade.FAIL
            fabric = plan.host(host).fabric
            wanted = f"no losses; pause in priority {fabric.priority if fabric is not None else '?'} only"
            self.add(
                f"{self.suite}.counters", grade, told or "no losses, no pause", wanted, host=host, subject=netdev,
                remedy="compare PFC, DSCP map and ECN of this port and of its switch port: g35ctl doctor; g35ctl"
                " render; then cable and optics",
                evidence=measured.evidence.get(host, ""),
            )  # fmt: skip


KINDS = ("discard", "sequence", "link", "storm", "pause_wrong_priority", "pause", "cnp")
BAD = ("discard", "sequence", "link", "storm", "pause_wrong_priority")


def kind_of(counter: str, priority: int) -> str:
    """What the rise of a counter means; empty for one that says nothing here."""
    if DISCARDS.match(counter):
        return "discard"
    if SEQUENCE.match(counter):
        return "sequence"
    if STORM.match(counter):
        return "storm"
    if counter == "carrier_changes":
        return "link"
    if "cnp" in counter:
        return "cnp"
    words = counter.split("_")
    for number in range(8):
        if (f"prio{number}" in words and words[-1] == "pause") or counter.endswith(f"pfc_ena_frames_pri{number}"):
            return "pause" if number == priority else "pause_wrong_priority"
    return ""


def counter_changes(suite: str, plan: Plan, measured: Measured) -> tuple[CounterChange, ...]:
    """Every counter of every data port that means something and moved while the suite ran."""
    found: list[CounterChange] = []
    for host, state in measured.states.items():
        told = state.get("counters") or {}
        before, after = told.get("before") or {}, told.get("after") or {}
        fabric = plan.host(host).fabric
        priority = fabric.priority if fabric is not None else 0
        for netdev in after:
            old, new = before.get(netdev) or {}, after[netdev]
            for group in ("ethtool", "rdma", "link"):
                for counter, value in sorted((new.get(group) or {}).items()):
                    earlier = int((old.get(group) or {}).get(counter, 0))
                    kind = kind_of(counter, priority)
                    if kind and int(value) != earlier:
                        found.append(CounterChange(suite, host, netdev, counter, kind, earlier, int(value)))
    return tuple(found)


def emulated(site: Site, devices: Iterable[str] = ()) -> bool:
    """Whether figures say anything about hardware: the site says it is emulated, or a port's RDMA is software."""
    return site.validation.emulated or any(Port("", None, True, name).software_rdma for name in devices)


def gigabytes(bytes_per_second: float) -> str:
    """A bandwidth in GB/s, or in MB/s below a tenth of one."""
    if bytes_per_second < 1e8:
        return f"{bytes_per_second / 1e6:.2f} MB/s"
    return f"{bytes_per_second / 1e9:.2f} GB/s"
