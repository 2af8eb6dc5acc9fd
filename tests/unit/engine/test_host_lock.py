"""Two modules never change one host at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.g35.module import Busy, alone


def test_a_second_holder_is_refused_and_the_first_gives_way_when_done(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with alone(path, 0.0), pytest.raises(Busy), alone(path, 0.0):
        pass
    with alone(path, 0.0):
        pass
