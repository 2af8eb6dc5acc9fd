"""Whatever the user writes ends in problems, never in a traceback."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from site_files import ALL, BOX, HOST1, SiteFiles

from g35ctl.site.load import inspect

ODD = st.sampled_from(
    [
        *(
            None,
            True,
            0,
            -1,
            2**70,
            1.5,
            "",
            " ",
            "x",
            "{{ nope }}",
            "{% broken",
            "{{ 1 +",
            [],
            {},
            [None],
            {"a": {"b": []}},
        ),
        *("10.0.0.0/8", "::1", "nqn.2026-01.io:x", "%s", "\u2028", ["x", {"netdev": "eth1"}], {1: 2}),
    ]
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every path in nested data."""
    found = [path] if path else []
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        data = data[step]
    data[path[-1]] = value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_odd_values_anywhere_are_problems_with_a_position(site: SiteFiles, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from([ALL, BOX, HOST1]))
    original = site.read(file)
    content = yaml.safe_load(original)
    path = data.draw(st.sampled_from(places(content)))
    changed = copy.deepcopy(content)
    put(changed, path, data.draw(ODD))
    Path(site.root / file).write_text(yaml.safe_dump(changed))
    try:
        found, problems = inspect(str(site.root))
    finally:
        Path(site.root / file).write_text(original)
    assert (found is None) == any(problem.severity == "error" for problem in problems)
    assert all(problem.what and Path(problem.position.file).exists() for problem in problems)
    assert all("\n" not in str(problem) for problem in problems)


@pytest.mark.parametrize("text", ["", "---\n", "[]\n", "just text\n", "a: b: c\n", "\t\n", "\x00\n", "gpu_hosts: 3\n"])
def test_odd_inventory_files_are_problems(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.yml").write_text(text)
    for inventory in (tmp_path, tmp_path / "hosts.yml"):
        found, problems = inspect(str(inventory))
        assert found is None
        assert any(problem.severity == "error" for problem in problems)


def test_a_failing_executable_inventory_is_a_problem(tmp_path: Path) -> None:
    script = tmp_path / "broken.sh"
    script.write_text("#!/bin/sh\necho 'no api token' >&2\nexit 1\n")
    script.chmod(0o755)
    found, problems = inspect(str(script))
    assert found is None
    assert any("no api token" in problem.what for problem in problems), [str(problem) for problem in problems]
