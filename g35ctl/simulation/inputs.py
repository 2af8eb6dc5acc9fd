"""What is simulated: a site's own workload, a file that describes one, or the published set-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from g35ctl.content import content_root
from g35ctl.engine.folder import find, state_directory
from g35ctl.engine.planning import make_plan
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.plan.workload.hardware import Hardware, hardware_of
from g35ctl.plan.workload.inherit import effective_workload
from g35ctl.simulation.run import Inputs
from g35ctl.site.model_config import ModelConfigError, read_shape, site_shape
from g35ctl.site.workload_model import Scenario
from g35ctl.validate.serving_result import ServingResult, read

EXAMPLE = "inventories/published"


def published() -> str:
    """The inventory of the published set-up."""
    return str(content_root() / EXAMPLE)


def site_inputs(inventory: str) -> tuple[str, Inputs]:
    """Name and inputs of a site. Raises SiteInvalid, or G35Error when it states no workload."""
    site, plan = make_plan(inventory)
    workload = effective_workload(site, plan.summary)
    hardware = hardware_of(site, plan.summary)
    if workload is None or not hardware.hosts:
        raise G35Error(
            f"site {site.identity.name} states no workload to simulate",
            why="g35_validate.workload is not set" if workload is None else "no host of group gpu_hosts",
            next_command="set g35_validate.workload (docs/simulate.md), or see g35ctl simulate --published",
            exit_code=Exit.SITE_INVALID,
        )
    shape = site_shape(inventory, workload)
    return f"site {site.identity.name}", Inputs(workload, shape, hardware, site.validation.prices)


def file_inputs(path: Path) -> tuple[str, Inputs]:
    """Name and inputs of a scenario file (YAML or JSON). Raises G35Error that names every problem."""
    scenario = _scenario(path)
    try:
        shape = read_shape(scenario.workload, path.parent)
    except ModelConfigError as error:
        raise _invalid(path, str(error), error.hint) from error
    owners = scenario.hosts if scenario.flash else 0
    flash = scenario.flash
    hardware = Hardware(scenario.hosts, owners, scenario.ports, scenario.box_gbps * 1e9, flash, flash)
    return path.name, Inputs(scenario.workload, shape, hardware, scenario.prices)


def measured_run(inventory: str, identifier: str) -> tuple[str, ServingResult]:
    """Name and serving figures of a past run. Raises G35Error when there are none."""
    folder = find(state_directory(inventory), identifier)
    result = read(folder.path)
    if result is None or not result.rows:
        raise G35Error(
            f"run {folder.identifier} has no serving figures", why="the serving suite did not run, or measured nothing",
            next_command="g35ctl validate --suite serving", exit_code=Exit.USAGE,
        )  # fmt: skip
    return folder.identifier, result


def with_users(inputs: Inputs, users: Sequence[int]) -> Inputs:
    """The inputs for other numbers of users; as they are for none."""
    return inputs.with_users(sorted(set(users))) if users else inputs


def _scenario(path: Path) -> Scenario:
    import yaml
    from pydantic import ValidationError

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _invalid(path, str(error), "a YAML mapping: hosts, ports, flash, box_gbps, workload, prices") from error
    try:
        return Scenario.model_validate(data or {})
    except ValidationError as error:
        told = [
            f"{'.'.join(str(step) for step in item['loc']) or 'file'}: {item['msg'].removeprefix('Value error, ')}"
            for item in error.errors(include_url=False)
        ]
        raise _invalid(path, "\n".join(told), "correct these; the keys are in docs/simulate.md") from error


def _invalid(path: Path, why: str, command: str) -> G35Error:
    return G35Error(f"{path} cannot be simulated", why=why, next_command=command, exit_code=Exit.USAGE)
