"""Suites run in order and stop at the first that does not hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from g35ctl.engine.failures import unreachable
from g35ctl.engine.proof import Proof
from g35ctl.engine.run import Failure
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.validate import suites
from g35ctl.validate.verb import exit_code
from g35ctl.verdict import Grade, Verdict


def proof(grade: Grade, failures: tuple[Failure, ...] = ()) -> Proof:
    return Proof((Verdict("s", "c", grade, "o", "e"),), failures)


def session(stopped: bool = False) -> Any:
    return SimpleNamespace(interrupt=SimpleNamespace(requested=lambda: stopped))


def made(*proofs: Proof) -> tuple[list[suites.Suite], list[str]]:
    ran: list[str] = []

    def runner(name: str, result: Proof) -> suites.Suite:
        def go(_: Any) -> Proof:
            ran.append(name)
            return result

        return suites.Suite(name, "", go)

    return [runner(str(index), result) for index, result in enumerate(proofs)], ran


def test_warnings_do_not_stop_a_fail_does() -> None:
    chosen, ran = made(proof(Grade.PASS), proof(Grade.WARN), proof(Grade.FAIL), proof(Grade.PASS))
    result = suites.run(session(), chosen)
    assert ran == ["0", "1", "2"]
    assert result.failed
    assert len(result.verdicts) == 3


def test_suite_that_could_not_run_stops() -> None:
    broken = proof(Grade.PASS, (Failure("h", "validate", "c", "o", "e", "r"),))
    chosen, ran = made(broken, proof(Grade.PASS))
    assert suites.run(session(), chosen).failures
    assert ran == ["0"]


def test_interruption_stops() -> None:
    chosen, ran = made(proof(Grade.PASS), proof(Grade.PASS))
    suites.run(session(stopped=True), chosen)
    assert ran == ["0"]


def test_unknown_suite_is_a_usage_error_that_lists_the_suites() -> None:
    with pytest.raises(G35Error) as caught:
        suites.select(["fabrik"])
    assert caught.value.exit_code is Exit.USAGE
    assert "functional" in caught.value.why


def test_all_means_every_suite() -> None:
    assert suites.select(["all"]) == tuple(item for item in suites.SUITES.values() if item.name != "serving")
    # It empties the pool and restarts stores: never by a word that means everything.
    assert suites.select(["all", "serving"]) == tuple(suites.SUITES.values())


@pytest.mark.parametrize(
    ("grade", "failures", "expected"),
    [
        (Grade.PASS, (), Exit.OK),
        (Grade.WARN, (), Exit.OK),
        (Grade.FAIL, (), Exit.THRESHOLDS_MISSED),
        (Grade.FAIL, (Failure("gpu1", "validate", "validate.probe", "o", "e", "r", "read"),), Exit.THRESHOLDS_MISSED),
        (Grade.FAIL, (unreachable("validate", "gpu1", "timed out"),), Exit.UNREACHABLE),
        (Grade.PASS, (Failure("", "validate", "ansible", "o", "e", "r"),), Exit.DEPLOY_FAILED),
    ],
)
def test_exit_code(grade: Grade, failures: tuple[Failure, ...], expected: Exit) -> None:
    assert exit_code(proof(grade, failures), interrupted=False) is expected
    assert exit_code(proof(grade, failures), interrupted=True) is Exit.INTERRUPTED
