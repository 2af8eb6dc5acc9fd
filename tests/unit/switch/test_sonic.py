"""The SONiC document against the schema derived from its YANG models, and against what a schema cannot say."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from switch_sites import CONTRACTS, configuration

SCHEMA = json.loads((Path(__file__).parent / "sonic_config_db.schema.json").read_text(encoding="utf-8"))
DOCUMENTS = [(contract, model) for contract in CONTRACTS for model in ("", "Mellanox-SN4600C-C64")]
# Leaf to the table that its leafref points into.
PORT_REFERENCES = {
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
    "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
    "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    "pfc_to_pg_map": "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
}
QUEUE_REFERENCES = {"scheduler": "SCHEDULER", "wred_profile": "WRED_PROFILE"}


def document(contract: str = "default", model: str = "", **changes: Any) -> dict[str, Any]:
    return json.loads(configuration("sonic", CONTRACTS[contract], model=model, **changes))


def broken_rules(data: dict[str, Any]) -> Iterator[str]:
    """Leafrefs and musts of the models."""
    for table, references in (("PORT_QOS_MAP", PORT_REFERENCES), ("QUEUE", QUEUE_REFERENCES)):
        for key, fields in data[table].items():
            for leaf, target in references.items():
                if leaf in fields and fields[leaf] not in data.get(target, {}):
                    yield f"{table}|{key}: {leaf} {fields[leaf]} is not in {target}"
    for name, profile in data["WRED_PROFILE"].items():
        for colour in ("green", "yellow", "red"):
            if int(profile[f"{colour}_max_threshold"]) < int(profile[f"{colour}_min_threshold"]):
                yield f"WRED_PROFILE|{name}: {colour} max below min"
    watchdog = data.get("PFC_WD", {})
    poll = int(watchdog.get("GLOBAL", {}).get("POLL_INTERVAL", 0))
    for port, fields in watchdog.items():
        for leaf in ("detection_time", "restoration_time"):
            if leaf in fields and int(fields[leaf]) < poll:
                yield f"PFC_WD|{port}: {leaf} below POLL_INTERVAL"


@pytest.mark.parametrize(("contract", "model"), DOCUMENTS)
def test_the_document_obeys_the_models(contract, model):
    data = document(contract, model)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    assert list(broken_rules(data)) == []


@pytest.mark.parametrize(
    ("table", "key", "leaf", "value"),
    [
        ("DSCP_TO_TC_MAP", "G35", "64", "0"),
        ("DSCP_TO_TC_MAP", "G35", "26", "16"),
        ("SCHEDULER", "g35.roce", "weight", "0"),
        ("SCHEDULER", "g35.roce", "type", "dwrr"),
        ("WRED_PROFILE", "G35_LOSSLESS_100G", "green_drop_probability", "101"),
        ("WRED_PROFILE", "G35_LOSSLESS_100G", "ecn", "all"),
        ("PORT_QOS_MAP", "Ethernet0", "pfc_enable", "8"),
        ("PORT_QOS_MAP", "Ethernet0", "pfc_enabled", "3"),
        ("PFC_WD", "Ethernet0", "detection_time", "99"),
        ("PFC_WD", "Ethernet0", "restoration_time", "60001"),
        ("PFC_WD", "GLOBAL", "POLL_INTERVAL", "1001"),
        ("QUEUE", "Ethernet0|3", "wred_profile", "-bad"),
    ],
)
def test_the_schema_refuses_what_the_models_refuse(table, key, leaf, value):
    data = copy.deepcopy(document())
    data[table][key][leaf] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)


@pytest.mark.parametrize(
    ("table", "key", "leaf", "value"),
    [
        ("QUEUE", "Ethernet0|3", "scheduler", "g35.other"),
        ("PORT_QOS_MAP", "Ethernet0", "tc_to_pg_map", "AZURE"),
        ("WRED_PROFILE", "G35_LOSSLESS_100G", "green_max_threshold", "1"),
        ("PFC_WD", "GLOBAL", "POLL_INTERVAL", "1000"),
    ],
)
def test_broken_references_are_seen(table, key, leaf, value):
    data = copy.deepcopy(document())
    data[table][key][leaf] = value
    assert len(list(broken_rules(data))) >= 1


def test_only_tables_of_qos_are_in_it_and_only_three_queues_of_a_port():
    data = document()
    assert set(data) == set(SCHEMA["properties"]) - {"PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"}
    assert [key for key in data["QUEUE"] if key.startswith("Ethernet0|")] == [
        "Ethernet0|0", "Ethernet0|3", "Ethernet0|6",
    ]  # fmt: skip
    assert "global" not in data["PORT_QOS_MAP"]


def test_only_data_is_in_the_lossless_priority_group_and_marked():
    data = document("ascend", "Mellanox-SN4600C-C64")
    groups = data["TC_TO_PRIORITY_GROUP_MAP"]["G35"]
    assert {tc for tc, group in groups.items() if group == "4"} == {"4"}
    assert {group for tc, group in groups.items() if tc != "4"} == {"0"}
    assert {key for key, fields in data["QUEUE"].items() if "wred_profile" in fields} == {"Ethernet0|4", "Ethernet4|4"}
    assert data["SCHEDULER"]["g35.cnp"] == {"type": "STRICT"}
    assert data["SCHEDULER"]["g35.roce"]["weight"] == "70"
    assert data["PFC_PRIORITY_TO_PRIORITY_GROUP_MAP"] == {"G35": {"4": "4"}}


def test_without_a_watchdog_it_is_switched_off_rather_than_left():
    data = document(watchdog={"enabled": False})
    assert "PFC_WD" not in data
    assert data["PORT_QOS_MAP"]["Ethernet0"]["pfcwd_sw_enable"] == ""
