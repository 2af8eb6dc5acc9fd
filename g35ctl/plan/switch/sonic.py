"""SONiC: a partial config_db document for ``config load``, which merges it key by key.

It holds only tables of QoS. MTU and cable lengths belong to tables that also hold what g35ctl does not know (lanes,
aliases): they are commands in the verification list. Buffers follow from speed, cable length and ``pfc_enable``.
"""

from __future__ import annotations

import json
from typing import Any

from g35ctl.plan.switch.intent import Intent, Profile

MAP = "G35"
DATA, OTHERS, CNP = "g35.roce", "g35.be", "g35.cnp"


def document(intent: Intent) -> dict[str, dict[str, dict[str, str]]]:
    """Table to key to fields, all values text as config_db holds them."""
    identity = {str(number): str(number) for number in range(8)}
    data = str(intent.priority)
    tables: dict[str, dict[str, dict[str, str]]] = {
        "DSCP_TO_TC_MAP": {MAP: {str(dscp): str(where) for dscp, where in enumerate(intent.classes)}},
        "TC_TO_QUEUE_MAP": {MAP: identity},
        "TC_TO_PRIORITY_GROUP_MAP": {MAP: {number: number if number == data else "0" for number in identity}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {MAP: identity},
        "SCHEDULER": {
            OTHERS: {"type": "DWRR", "weight": str(intent.rest)},
            CNP: {"type": "STRICT"},
            DATA: {"type": "DWRR", "weight": str(intent.bandwidth)},
        },
        "WRED_PROFILE": {wred_name(profile): _wred(profile) for profile in intent.profiles},
        "QUEUE": {},
        "PORT_QOS_MAP": {},
    }
    if "pfc_to_pg" in intent.branches:
        tables["PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"] = {MAP: {data: data}}
    if intent.watchdog.enabled:
        tables["PFC_WD"] = {"GLOBAL": {"POLL_INTERVAL": str(intent.watchdog.poll_ms)}}
    for port in intent.ports:
        queues = tables["QUEUE"]
        queues[f"{port.name}|0"] = {"scheduler": OTHERS}
        queues[f"{port.name}|{data}"] = {"scheduler": DATA, "wred_profile": wred_name(port.profile)}
        queues[f"{port.name}|{intent.cnp_priority}"] = {"scheduler": CNP}
        tables["PORT_QOS_MAP"][port.name] = _binding(intent)
        if intent.watchdog.enabled:
            tables["PFC_WD"][port.name] = {
                "action": intent.watchdog.action,
                "detection_time": str(intent.watchdog.detection_ms),
                "restoration_time": str(intent.watchdog.restoration_ms),
            }
    return tables


def text(intent: Intent) -> str:
    """The document as it is written: tables and keys in a fixed order, so that equal sites give equal bytes."""
    tables: dict[str, Any] = document(intent)
    return json.dumps(tables, indent=2) + "\n"


def wred_name(profile: Profile) -> str:
    """The name of a profile in WRED_PROFILE."""
    return f"G35_LOSSLESS_{profile.speed}"


def _wred(profile: Profile) -> dict[str, str]:
    found = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        found |= {
            f"wred_{colour}_enable": "true",
            f"{colour}_min_threshold": str(profile.ecn_min),
            f"{colour}_max_threshold": str(profile.ecn_max),
            f"{colour}_drop_probability": str(profile.probability),
        }
    return found


def _binding(intent: Intent) -> dict[str, str]:
    found = {
        "dscp_to_tc_map": MAP,
        "tc_to_queue_map": MAP,
        "tc_to_pg_map": MAP,
        "pfc_to_queue_map": MAP,
        "pfc_enable": str(intent.priority),
        "pfcwd_sw_enable": str(intent.priority) if intent.watchdog.enabled else "",
    }
    if "pfc_to_pg" in intent.branches:
        found["pfc_to_pg_map"] = MAP
    return found
