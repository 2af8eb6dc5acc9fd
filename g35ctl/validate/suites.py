"""The validation suites, in the order in which they run: each stands on the one before it, so the first FAIL stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from g35ctl.engine.proof import Proof, prove
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.session import Session
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.validate import bench_fabric, bench_storage, bench_store
from g35ctl.validate.serving import suite as serving
from g35ctl.verdict import Verdict


@dataclass(frozen=True)
class Suite:
    """One suite: what it shows, and what runs it."""

    name: str
    shows: str
    run: Callable[[Session], Proof]
    #: it changes the site for a while and empties the pool: only ever run by its name
    disruptive: bool = False


#: Each suite is one line here, in running order. A further one needs a function from a Session to a Proof.
SUITES: Mapping[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("functional", "the tier is what was planned, and values come back equal from flash", prove),
        Suite("fabric", "pairs of hosts, and many into one, get what their ports are rated for", bench_fabric.run),
        Suite("storage", "namespaces alone and all at once give what they are rated for", bench_storage.run),
        Suite("store", "the KV pool gives values back equal and fast, from memory and from flash", bench_store.run),
        Suite("serving", "users with long contexts are answered as fast as from memory alone", serving.run, True),
    )
}
ALL = "all"


def select(names: Sequence[str]) -> tuple[Suite, ...]:
    """The named suites in running order; ``all`` is every one that changes nothing. Raises G35Error (usage) for an
    unknown name."""
    unknown = [name for name in names if name not in SUITES and name != ALL]
    if unknown:
        raise G35Error(
            f"there is no suite {unknown[0]!r}",
            why="suites: " + ", ".join([*SUITES, ALL]),
            next_command="g35ctl validate --suite functional",
            exit_code=Exit.USAGE,
        )
    return tuple(suite for name, suite in SUITES.items() if name in names or (ALL in names and not suite.disruptive))


def run(session: Session, suites: Sequence[Suite]) -> Proof:
    """Run the suites one after the other until one fails, cannot be run, or is interrupted."""
    verdicts: list[Verdict] = []
    failures: list[Failure] = []
    stages: list[StageResult] = []
    for suite in suites:
        proof = suite.run(session)
        verdicts += proof.verdicts
        failures += proof.failures
        stages += proof.stages
        if proof.failed or proof.failures or session.interrupt.requested():
            break
    return Proof(tuple(verdicts), tuple(failures), tuple(stages))
