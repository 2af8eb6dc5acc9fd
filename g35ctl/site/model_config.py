"""The model that a site's workload runs: its ``config.json``, found beside the inventory and read."""

from __future__ import annotations

import json
from pathlib import Path

from g35ctl.site.model_shape import ModelShape, ShapeError, shape_of
from g35ctl.site.paths import inventory_directory
from g35ctl.site.workload_model import Workload

_LARGEST = 4 * 2**20


class ModelConfigError(ValueError):
    """Why a workload's model is not known; ``hint`` says what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def read_shape(workload: Workload, directory: Path) -> ModelShape:
    """The shape of a workload's model; ``directory`` is where relative paths start. Raises ModelConfigError."""
    if workload.bytes_per_token:
        return ModelShape.fixed(workload.bytes_per_token)
    state = "or state bytes_per_token"
    if not workload.config_json:
        raise ModelConfigError(
            "the workload names no model", f"set config_json to the path of the model's config.json, {state}"
        )
    path = directory / Path(workload.config_json).expanduser()
    path = path / "config.json" if path.is_dir() else path
    try:
        if path.stat().st_size > _LARGEST:
            raise ModelConfigError(f"{path} is too large to be a config.json", "name the model's config.json")
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelConfigError(f"there is no file {path}", f"copy the model's config.json there, {state}") from None
    except (OSError, ValueError) as error:
        raise ModelConfigError(f"{path} cannot be read: {error}", "copy the model's config.json there again") from error
    if not isinstance(data, dict):
        raise ModelConfigError(f"{path} is not a JSON object", "name the model's config.json")
    try:
        return shape_of(data)
    except ShapeError as error:
        raise ModelConfigError(f"{path}: {error}", f"correct config_json, {state}") from error


def site_shape(inventory: str, workload: Workload) -> ModelShape:
    """The same for the workload of an inventory. Raises ModelConfigError."""
    return read_shape(workload, inventory_directory(inventory))
