"""Lints of what the tier is planned for: the model must be known, and there must be room to plan with."""

from __future__ import annotations

from g35ctl.site.lints.context import Context
from g35ctl.site.problems import Problem

_PATH = ("g35_validate", "workload")


def model_is_known(context: Context) -> list[Problem]:
    """A config.json that is absent, unreadable or says too little."""
    workload = context.site.validation.workload
    if workload is None or not context.site.hosts or context.is_partial(context.site.hosts[0], _PATH[0]):
        return []
    from g35ctl.site.model_config import ModelConfigError, site_shape

    try:
        site_shape(context.site.inventory, workload)
    except ModelConfigError as error:
        path = (*_PATH, "config_json") if workload.config_json else _PATH
        return [context.at(context.site.hosts[0], path, str(error), error.hint, hosts=())]
    return []


def room_is_stated(context: Context) -> list[Problem]:
    """A workload without any room on the hosts predicts a local path that holds nobody."""
    workload = context.site.validation.workload
    if workload is None or not context.site.hosts:
        return []
    tiers = workload.tiers
    if tiers.device or tiers.memory or tiers.local_flash:
        return []
    what = "states no room for KV cache on the hosts: path local is predicted to hold no context"
    hint = "set memory (per host), and device and local_flash where there are any"
    return [context.at(context.site.hosts[0], (*_PATH, "tiers"), what, hint, severity="warning", hosts=())]


LINTS = (model_is_known, room_is_stated)
