"""A small valid site on disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from site_files import SiteFiles

from g35ctl.site.scaffold import Answers, write


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SiteFiles:
    """A valid site without warnings: one nvmet box with two SSDs, two hosts, two rails, and a wheel to install."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheels = tmp_path / "cache/g35ctl/wheelhouse/mooncake-transfer-engine-non-cuda-0.3.13.post1"
    wheels.mkdir(parents=True)
    (wheels / "mooncake.whl").touch()
    root = tmp_path / "site"
    write(root, Answers(name="test", ssds=2, ssd_size="4GiB", driver="nvmet"))
    return SiteFiles(root)
