"""Six vendors times two contracts, byte for byte. ``G35_GOLDEN=write pytest tests/unit/switch`` writes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from switch_sites import CONTRACTS, MODELS, PORTS, plan

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("vendor", PORTS)
def test_a_rendering_is_its_golden_file(vendor, contract):
    changes = MODELS.get(vendor, {}) if contract == "ascend" else {}
    for file in plan(vendor, CONTRACTS[contract], **changes).files:
        path = GOLDEN / contract / file.path
        if os.environ.get("G35_GOLDEN") == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.content, encoding="utf-8")
        assert file.content == path.read_text(encoding="utf-8"), path


def test_there_is_no_golden_file_that_nothing_renders():
    made = {
        GOLDEN / contract / file.path
        for contract, traffic in CONTRACTS.items()
        for vendor in PORTS
        for file in plan(vendor, traffic).files
    }
    assert {path for path in GOLDEN.rglob("*") if path.is_file()} == made
