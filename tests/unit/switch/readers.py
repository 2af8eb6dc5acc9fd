"""Reads the rendered configurations back, each in its vendor's words: what maps where, and where PFC is on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

BEHAVIOURS = ("be", "af1", "af2", "af3", "af4", "ef", "cs6", "cs7")


def numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in re.split(r"[ ,]+", text.strip()):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _pairs(entries: list[tuple[int, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for dscp, where in entries:
        assert dscp not in found, f"DSCP {dscp} is mapped twice"
        found[dscp] = where
    return found


def _sonic(text: str) -> tuple[dict[int, int], set[int]]:
    data = json.loads(text)
    (table,) = data["DSCP_TO_TC_MAP"].values()
    enabled = {port["pfc_enable"] for port in data["PORT_QOS_MAP"].values()}
    return {int(key): int(value) for key, value in table.items()}, {int(item) for item in enabled}


def _nvue(text: str) -> tuple[dict[int, int], set[int]]:
    maps = re.findall(r"qos mapping default-global dscp (\S+) switch-priority (\d)", text)
    queues = re.findall(r"egress-queue-mapping default-global switch-priority (\S+) traffic-class (\d)", text)
    classes = {priority: int(where) for group, where in queues for priority in numbers(group)}
    found = _pairs([(dscp, classes[int(where)]) for group, where in maps for dscp in numbers(group)])
    (lossless,) = re.findall(r"qos pfc default-global switch-priority (\S+)", text)
    return found, set(numbers(lossless))


def _eos(text: str) -> tuple[dict[int, int], set[int]]:
    maps = re.findall(r"^qos map dscp ([\d ]+) to traffic-class (\d)$", text, re.MULTILINE)
    found = _pairs([(dscp, int(where)) for group, where in maps for dscp in numbers(group)])
    return found, {int(item) for item in re.findall(r"priority-flow-control priority (\d) no-drop", text)}


def _nxos(text: str) -> tuple[dict[int, int], set[int]]:
    """QoS groups are told apart by what they do: the paused one is data's, the strict one that of notifications."""
    matches = dict(re.findall(r"class-map type qos match-all (\S+)\n  match dscp (\d+)", text))
    groups = dict(re.findall(r"  class (G35-\S+|class-default)\n    set qos-group (\d)", text))
    ((paused, cos),) = re.findall(r"class type network-qos c-\S*?nq(\d)\n    mtu \d+\n    pause pfc-cos (\d)", text)
    (strict,) = set(re.findall(r"class type queuing c-out-\S*?q(\d)\n    priority level 1", text))
    assert groups["G35-ROCE"] == paused
    assert groups["G35-CNP"] == strict
    assert groups["class-default"] == "0"
    found = dict.fromkeys(range(64), 0)
    found[int(matches["G35-ROCE"])] = int(cos)
    found[int(matches["G35-CNP"])] = -1
    return found, {int(cos)}


def _comware(text: str) -> tuple[dict[int, int], set[int]]:
    table = text.partition("qos map-table dscp-dot1p\n")[2].partition("#")[0]
    found = _pairs([(int(a), int(b)) for a, b in re.findall(r"import (\d+) export (\d)", table)])
    return found, {int(item) for item in re.findall(r"no-drop dot1p (\d)", text)}


def _cloudengine(text: str) -> tuple[dict[int, int], set[int]]:
    maps = re.findall(r"ip-dscp-inbound (\d+) phb (\w+) green", text)
    found = _pairs([(int(dscp), BEHAVIOURS.index(phb)) for dscp, phb in maps])
    on = {3} | {int(item) for item in re.findall(r"^ priority (\d)$", text, re.MULTILINE)}  # 3 is on by default
    return found, on - {int(item) for item in re.findall(r"^ undo priority (\d)$", text, re.MULTILINE)}


READERS: Mapping[str, Callable[[str], tuple[dict[int, int], set[int]]]] = {
    "sonic": _sonic, "nvue": _nvue, "eos": _eos, "nxos": _nxos, "comware": _comware, "cloudengine": _cloudengine,
}  # fmt: skip
"""Vendor to a reader of its configuration: the class of each DSCP (-1 for NX-OS's strict group), PFC's priorities."""
