"""All lints of a site: what each value may be is the model's business, whether values fit each other is theirs."""

from __future__ import annotations

from g35ctl.site.lints import (
    access,
    boxes,
    cache,
    flash,
    inference,
    inference_fit,
    mooncake,
    network,
    nvme,
    stripes,
    switches,
    workload,
)
from g35ctl.site.lints.context import Context
from g35ctl.site.problems import Problem

LINTS = (
    *access.LINTS, *network.LINTS, *nvme.LINTS, *flash.LINTS, *stripes.LINTS, *boxes.LINTS, *cache.LINTS,
    *mooncake.LINTS, *switches.LINTS, *workload.LINTS, *inference.LINTS, *inference_fit.LINTS,
)  # fmt: skip


def lint(context: Context) -> list[Problem]:
    """Every problem that any lint finds."""
    return [problem for check in LINTS for problem in check(context)]
