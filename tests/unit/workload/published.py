"""The published set-up: two hosts, 16 accelerators, 160,000 tokens of context, 250 GB of memory per host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from g35ctl.plan.workload.hardware import Hardware
from g35ctl.simulation.run import Inputs
from g35ctl.site.model_shape import ModelShape, shape_of
from g35ctl.site.workload_model import Prices, Workload

MODELS = Path(__file__).resolve().parents[2] / "fixtures" / "models"


def model(name: str = "deepseek-v3") -> ModelShape:
    return shape_of(json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8")))


def workload(**changes: Any) -> Workload:
    return Workload.model_validate({"groups": 2, "tiers": {"memory": "250GB"}, **changes})


def hardware(**changes: Any) -> Hardware:
    values = {"hosts": 2, "owners": 2, "ports": 2, "box": 360e9, "pool": 160 * 10**12, "raw": 184 * 10**12}
    return Hardware(**{**values, **changes})


def inputs(name: str = "deepseek-v3", **changes: Any) -> Inputs:
    return Inputs(workload(**changes), model(name), hardware(), Prices())
