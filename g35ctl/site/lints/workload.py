"""Lints of what the tier is planned for: the model must be known."""

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


LINTS = (model_is_known,)
