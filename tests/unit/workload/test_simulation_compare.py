"""A measured run beside its prediction."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from g35ctl.cli.main import app
from g35ctl.content import content_root
from g35ctl.simulation.compare import as_measured, compare
from g35ctl.simulation.inputs import file_inputs
from g35ctl.simulation.run import Inputs, simulate
from g35ctl.validate.serving_result import CachePath, Distribution, PathSetting, Row, ServingResult, Workload, write

LAB = content_root() / "inventories" / "scenarios" / "serving-lab.yml"
PATHS = tuple(CachePath)
# One vLLM on two processor cores, one run each: users, then mean TTFT and hit rate of local, memory and g35.
MEASURED = [
    (4, (0.037, 0.9798), (0.045, 0.9798), (0.035, 0.9798)),
    (8, (0.036, 0.9798), (0.037, 0.9798), (0.039, 0.9798)),
    (12, (0.436, 0.0), (0.060, 0.9798), (0.075, 0.9428)),
    (20, (0.423, 0.0), (0.054, 0.9798), (0.061, 0.9798)),
]


def lab() -> Inputs:
    return file_inputs(LAB)[1]


def measured(cold: float | None = 0.43) -> ServingResult:
    rows = [
        Row(
            path, users, 1, Distribution.of([ttft]), Distribution.of([cold] if cold else []), ttft, ttft, hits, None,
            1.5, 1.5, 0, True,
        )
        for users, *figures in MEASURED
        for path, (ttft, hits) in zip(PATHS, figures, strict=True)
    ]  # fmt: skip
    method = Workload((4, 8, 12, 20), PATHS, 1.5, 1, 4096, 0, 64, 4, 4, 1, 7, 128)
    settings = (
        PathSetting(CachePath.LOCAL, 72_000_000, 0, None, ""),
        PathSetting(CachePath.MEMORY, 540_000_000, 0, None, ""),
        PathSetting(CachePath.G35, 72_000_000, 10**10, None, ""),
    )
    return ServingResult(method, settings, (), tuple(rows))


@pytest.mark.parametrize("figures", MEASURED, ids=lambda item: f"{item[0]} users")
def test_the_small_comparison_is_predicted(figures: tuple[int, tuple[float, float]]) -> None:
    """Calibrated on a hit, a miss and one load from memory; knees, hit rates and the other times are predicted."""
    table = simulate(lab(), "lab").result
    users, *expected = figures
    for path, (ttft, hits) in zip(PATHS, expected, strict=True):
        row = table.row(path, users)
        assert row is not None
        assert row.ttft is not None
        assert row.hit_rate == pytest.approx(hits, abs=0.04)
        assert row.ttft.mean == pytest.approx(ttft, rel=0.25)


def test_a_run_calibrates_the_model_with_two_of_its_times() -> None:
    inputs = as_measured(lab(), measured())
    assert inputs.workload.tiers.memory_path == 540_000_000
    assert inputs.hardware.pool == 10**10
    rows = compare(inputs, measured())
    assert len(rows) == 12
    (reference,) = [row for row in rows if row.calibrated]
    assert (reference.path, reference.users) == (CachePath.MEMORY, 4)
    assert abs(reference.ttft_error) < 0.1
    by_place = {(row.path, row.users): row for row in rows}
    assert by_place[CachePath.LOCAL, 12].predicted_hits == 0
    assert abs(by_place[CachePath.LOCAL, 12].ttft_error) < 0.1
    assert by_place[CachePath.G35, 12].hits_error == pytest.approx(0.037, abs=0.001)


def test_what_a_store_evicts_early_holds_no_contexts() -> None:
    early = replace(measured(), settings=(PathSetting(CachePath.LOCAL, 80_000_000, 0, 4.0, ""),))
    inputs = as_measured(lab(), early)
    assert inputs.workload.tiers.memory == 4 * (4096 + 3 * 64) * 2048
    two = replace(early, workload=replace(early.workload, nodes=2))
    assert as_measured(lab(), two).workload.tiers.memory == 2 * (4096 + 3 * 64) * 2048
    assert as_measured(lab(), two).hardware.hosts == 2


def test_a_run_without_cold_times_calibrates_nothing() -> None:
    inputs = as_measured(lab(), measured(cold=None))
    assert inputs.workload.timing == lab().workload.timing
    assert not any(row.calibrated for row in compare(inputs, measured(cold=None)))


def test_the_verb_reads_a_run_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("G35_STATE", str(tmp_path))
    folder = tmp_path / "runs" / "20260101T000000.000Z-validate"
    folder.mkdir(parents=True)
    arguments = ["simulate", "--config", str(LAB), "--against", "last"]
    monkeypatch.setattr("sys.argv", ["g35ctl", *arguments])
    assert "has no serving figures" in str(CliRunner().invoke(app, arguments).exception)
    write(folder, measured())
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "memory *" in done.stdout
    document = json.loads(CliRunner().invoke(app, [*arguments, "-o", "json"]).stdout)
    assert len(document["rows"]) == 12
    assert document["rows"][0].keys() >= {"measured_ttft", "predicted_ttft", "ttft_error", "hits_error"}
