"""Air gap: a bundle made once brings a controller that knows nothing all that a deploy needs, with every index away."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import CHECKOUT, Tier

pytestmark = [pytest.mark.lab, pytest.mark.soak]
# Whatever would ask an index finds nobody there.
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "http_proxy": "http://127.0.0.1:9"}


def run(tier: Tier, *words: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        tier.argv(*words), cwd=CHECKOUT, capture_output=True, text=True, timeout=1500, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_a_host_is_built_anew_from_a_bundle_with_every_index_unreachable(converged: Tier, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    made = run(converged, "bundle", "create", "--into", str(bundle), environment=NOWHERE)
    assert made.returncode == 0, made.stderr
    elsewhere = {**NOWHERE, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    without = run(converged, "plan", environment=elsewhere)
    assert "lacks" in without.stdout + without.stderr  # this controller has no wheels of its own
    installed = run(converged, "bundle", "install", str(bundle), environment=elsewhere)
    assert installed.returncode == 0, installed.stderr
    converged.ssh("gpu2", "sh", "-c", "rm -f /opt/g35/mooncake/*/.g35-complete")
    done = run(converged, "deploy", "--allow-disruptive", "--yes", environment=elsewhere)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    stages = {stage["stage"]: stage["hosts"] for stage in json.loads(done.stdout)["stages"]}
    assert stages["cache"]["gpu2"] == "changed"
    assert converged.ssh("gpu2", "sh", "-c", "ls /opt/g35/mooncake/*/.g35-complete").strip()
