"""Generates what is documented once, in the code: docs/variables.md and the plans' fields in the argument specs.

``python docs/generate.py`` writes, ``--check`` only tells what is out of date and then exits 1.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import sys
import types
import typing
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pydantic import BaseModel, SecretStr  # noqa: E402
from pydantic.fields import FieldInfo  # noqa: E402

import g35ctl  # noqa: E402, F401  (makes the shared code importable)
from g35ctl.plan.model import STAGE_PLANS  # noqa: E402
from g35ctl.plan.switch.model import SwitchPlan  # noqa: E402
from g35ctl.report import monitoring  # noqa: E402
from g35ctl.site import model  # noqa: E402
from g35ctl.site.sizes import format_size, parse_size  # noqa: E402

# variable -> (model, where it is set)
VARIABLES: Mapping[str, tuple[type[BaseModel], str]] = {
    "g35_site": (model.SiteIdentity, "all hosts, the same everywhere"),
    "g35_fabric": (model.Fabric, "all hosts, the same everywhere"),
    "g35_ports": (model.HostPort, "each host with data ports; a list"),
    "g35_ebof": (model.Box, "each host of group `ebof`"),
    "g35_nvme": (model.Nvme, "all hosts, a group or a host"),
    "g35_storage": (model.Storage, "all hosts, a group or a host"),
    "g35_mooncake": (model.Mooncake, "all hosts, a group or a host; `version` the same everywhere"),
    "g35_inference": (model.Inference, "all hosts, a group or a host of `gpu_hosts` and `routers`"),
    "g35_metrics": (model.Metrics, "all hosts, a group or a host"),
    "g35_switch": (model.Switch, "each host of group `switches`"),
    "g35_validate": (model.Validation, "all hosts, the same everywhere"),
}
# role -> stage plan it takes
ROLES = {
    "ebof_target": "target",
    "ebof_box": "box",
    "roce_host": "fabric",
    "nvme_host": "connect",
    "kv_storage": "storage",
    "mooncake": "cache",
    "inference_vllm": "inference",
    "inference_sglang": "inference",
    "inference_router": "inference",
    "validate": "probe",
    "switch_config": "switch",
}
PLANS: Mapping[str, type] = {**STAGE_PLANS, "switch": SwitchPlan}
SOURCES = {"switch": "g35ctl/plan/switch/model.py"}
_ADDRESSES = {ipaddress.IPv4Address, ipaddress.IPv6Address}
_NETWORKS = {ipaddress.IPv4Network, ipaddress.IPv6Network}
_UNIONS = (typing.Union, types.UnionType)


def members(kind: Any) -> tuple[Any, ...]:
    """The members of a union without None; the type itself otherwise. Looks through Annotated."""
    if typing.get_origin(kind) is typing.Annotated:
        return members(typing.get_args(kind)[0])
    if typing.get_origin(kind) in _UNIONS:
        return tuple(item for part in typing.get_args(kind) if part is not type(None) for item in members(part))
    return (kind,)


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


# --- docs/variables.md -------------------------------------------------------------------------------------------


def field_type(kind: Any, metadata: list[Any]) -> str:
    """A field's type as a reader of inventories would name it."""
    if any(getattr(item, "func", None) is parse_size for item in metadata):
        return "size"
    kinds = members(kind)
    if set(kinds) <= _ADDRESSES:
        return "address"
    if set(kinds) <= _NETWORKS:
        return "subnet"
    if len(kinds) > 1:
        return " or ".join(field_type(item, []) for item in kinds)
    (kind,) = kinds
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        return " or ".join(f"`{item}`" for item in typing.get_args(kind))
    if origin is tuple:
        inner = typing.get_args(kind)[0]
        return "list of mappings" if is_model(members(inner)[0]) else f"list of {field_type(inner, [])}"
    if is_model(kind):
        return "mapping"
    names = {str: "text", int: "integer", float: "number", bool: "boolean", uuid.UUID: "UUID", SecretStr: "secret text"}
    return names[kind]


def limits(metadata: list[Any]) -> str:
    """The range a number must lie in."""
    low = next((f"at least {item.ge}" for item in metadata if getattr(item, "ge", None) is not None), "")
    low = low or next((f"more than {item.gt}" for item in metadata if getattr(item, "gt", None) is not None), "")
    high = next((f"at most {item.le}" for item in metadata if getattr(item, "le", None) is not None), "")
    high = high or next((f"less than {item.lt}" for item in metadata if getattr(item, "lt", None) is not None), "")
    return ", ".join(part for part in (low, high) if part)


def default_of(field: FieldInfo) -> str:
    """The default as it would be written; "required" without one."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value == () or isinstance(value, SecretStr):
        return ""
    if isinstance(value, BaseModel):
        return "as below"
    if value and any(getattr(item, "func", None) is parse_size for item in field.metadata):
        return f"`{format_size(value).replace(' ', '')}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else ""


def nested(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a mapping or a list of mappings."""
    for kind in members(field.annotation):
        inner = members(typing.get_args(kind)[0])[0] if typing.get_origin(kind) is tuple else kind
        if is_model(inner):
            return typing.cast("type[BaseModel]", inner)
    return None


def table(path: str, shape: type[BaseModel]) -> Iterator[str]:
    """The table of one mapping, then those of the mappings inside it."""
    yield from ("| key | type | default | meaning |", "|---|---|---|---|")
    inside: list[tuple[str, type[BaseModel]]] = []
    for name, field in shape.model_fields.items():
        meaning = (field.description or "").replace("|", "\\|")
        allowed = limits(field.metadata)
        kind = field_type(field.annotation, field.metadata)
        if allowed and kind != "size":
            kind = f"{kind}, {allowed}"
        yield f"| `{name}` | {kind} | {default_of(field)} | {meaning} |"
        inner = nested(field)
        if inner is not None:
            many = kind.startswith("list")
            inside.append((f"{path}.{name}{'[]' if many else ''}", inner))
    for where, inner in inside:
        yield from ("", f"### `{where}`", "", (inner.__doc__ or "").split("\n")[0], "")
        yield from table(where, inner)


def variables_page() -> str:
    """The whole of docs/variables.md."""
    lines = [
        "# Variables",
        "",
        "<!-- Generated by `make docs` from g35ctl/site/model.py; changes here are overwritten. -->",
        "",
        "A site is an ordinary Ansible inventory. What g35ctl reads in it are the groups"
        f" {', '.join(f'`{group}`' for group in model.GROUPS)} (owners are `gpu_hosts` while `cache_owners` is empty)"
        " and the variables below. Each is one mapping; unknown keys are refused, and `g35ctl check` shows where they"
        " stand and what they were probably meant to be.",
        "",
        "Sizes are whole numbers of bytes, or numbers with a unit: KiB, MiB, GiB, TiB (1024) or KB, MB, GB, TB (1000).",
        "",
    ]
    for name, (shape, where) in VARIABLES.items():
        text = " ".join((shape.__doc__ or "").split()).replace(f"``{name}``: ", "").replace("``", "`")
        lines += [f"## `{name}`", "", f"{text[:1].upper()}{text[1:]} Set on: {where}.", ""]
        lines += table(f"{name}[]" if name == "g35_ports" else name, shape)
        lines.append("")
    lines += [
        "## Variables of the roles",
        "",
        "The roles take their part of the plan: `g35_target_plan`, `g35_box_plan`, `g35_fabric_plan`,"
        " `g35_connect_plan`, `g35_storage_plan`, `g35_cache_plan`, `g35_inference_plan`, `g35_probe_plan` and"
        " `g35_switch_plan`. g35ctl computes them from the variables above, under plain `ansible-playbook` too; their"
        " fields are in each role's `meta/argument_specs.yml`. `g35_action` says what a role does"
        " (`preflight`, `apply`, `verify`, `drain`, `remove`), and `g35_allow_disruptive` consents to changes that"
        " interrupt something live.",
    ]
    return "\n".join(lines) + "\n"


# --- roles/*/meta/argument_specs.yml -------------------------------------------------------------------------------


def options(shape: type, indent: str) -> Iterator[str]:
    """The ``options`` of a plan dataclass as YAML lines."""
    hints = typing.get_type_hints(shape)
    yield f"{indent}options:"
    for field in dataclasses.fields(shape):
        kind = members(hints[field.name])[0]
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        inner = indent + "    "
        yield f"{indent}  {field.name}:"
        yield from option(kind, inner)
        if required:
            yield f"{inner}required: true"
        elif isinstance(field.default, (bool, int, str)) and field.default != "":
            default = str(field.default).lower() if isinstance(field.default, bool) else field.default
            yield f"{inner}default: {quoted(default)}"
        yield f"{inner}description: {quoted(field.metadata['doc'])}"
        for part in typing.get_args(kind) if typing.get_origin(kind) is tuple else (kind,):
            if dataclasses.is_dataclass(part):
                yield from options(typing.cast("type", part), inner)


def option(kind: Any, indent: str) -> Iterator[str]:
    """``type`` and ``elements`` of an option."""
    names = {str: "str", int: "int", bool: "bool", float: "float"}
    origin = typing.get_origin(kind)
    if origin is tuple:
        element = typing.get_args(kind)[0]
        yield f"{indent}type: list"
        yield f"{indent}elements: {names.get(element, 'dict')}"
    else:
        yield f"{indent}type: {names.get(kind, 'dict')}"


def quoted(value: object) -> str:
    """A scalar that YAML reads back as it is."""
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if text in ("true", "false"):
        return text
    plain = text[:1].isalpha() and ": " not in text and " #" not in text and not text.endswith(":")
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def mark(stage: str) -> str:
    """The comment above generated options: where they come from."""
    source = SOURCES.get(stage, "plugins/module_utils/g35/plans.py")
    return f"# Generated from {source} by `make docs`; changes here are overwritten."


def with_options(text: str, stage: str) -> str:
    """An argument specs file with the fields of its plan brought up to date; all else stays as it is."""
    name = f"g35_{stage}_plan:"
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.strip() == name)
    indent = lines[start][: len(lines[start]) - len(name)]
    inner = indent + "  "
    stop = next(
        (
            place
            for place in range(start + 1, len(lines))
            if lines[place].strip() and not lines[place].startswith(inner)
        ),
        len(lines),
    )
    kept = []
    for line in lines[start + 1 : stop]:
        if line.strip() == mark(stage) or line == f"{inner}options:":
            break
        kept.append(line)
    made = [f"{inner}{mark(stage)}", *options(PLANS[stage], inner)]
    return "\n".join([*lines[: start + 1], *kept, *made, *lines[stop:]]) + "\n"


def documents() -> Iterator[tuple[Path, str]]:
    """Every generated file and what it must hold."""
    yield ROOT / "docs" / "variables.md", variables_page()
    for name, content in monitoring.files().items():
        yield ROOT / "templates" / "monitoring" / name, content
    page = ROOT / "docs" / "metrics.md"
    yield page, with_metrics(page.read_text(encoding="utf-8"))
    for role, stage in ROLES.items():
        path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
        yield path, with_options(path.read_text(encoding="utf-8"), stage)


def with_metrics(text: str) -> str:
    """docs/metrics.md with its table of metrics brought up to date."""
    before, start, rest = text.partition("| metric | kind |")
    _, blank, after = rest.partition("\n\n")
    return before + monitoring.reference() + ("\n" + after if blank else "") if start else text


def main(arguments: list[str]) -> int:
    """Write or check; returns the exit code."""
    stale = 0
    for path, content in documents():
        if path.is_file() and path.read_text(encoding="utf-8") == content:
            continue
        stale += 1
        if "--check" in arguments:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: make docs\n")
        else:
            path.write_text(content, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
