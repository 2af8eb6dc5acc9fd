"""Extractors: stage states become typed readings, and what is malformed names its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tier_sample as tier
import tier_states

from g35ctl.observe import cache, connect, fabric, probe, readings, storage, target
from g35ctl.observe.reading import Reader, StateError


def test_readings_of_a_healthy_tier_are_complete() -> None:
    found = readings.read(tier.plan(), tier_states.states(), tier_states.probes())
    assert not found.problems
    assert not found.unreached
    assert len(found.exports["ebof1"]) == 4
    assert {item.portals for item in found.exports["ebof1"]} == {("192.0.2.11:4420", "198.51.100.11:4420")}
    assert found.exports["ebof1"][0].uuid == tier.uuid(1)
    assert len(found.reads["gpu1"].values) == 16


@pytest.mark.parametrize(
    ("extract", "spoil", "where"),
    [
        (fabric.ports, lambda s: s["gpu1"]["fabric"]["ports"]["eth1"].update(mtu="9000"), "fabric.ports.eth1.mtu"),
        (fabric.ports, lambda s: s["gpu1"]["fabric"]["ports"]["eth1"].pop("carrier"), "fabric.ports.eth1.carrier"),
        (
            fabric.ports,
            lambda s: s["gpu1"]["fabric"]["ports"]["eth1"]["dcb"].update(dscp=[[26]]),
            "fabric.ports.eth1.dcb.dscp[0]",
        ),
        (fabric.ports, lambda s: s["gpu1"].update(fabric=[]), "fabric"),
        (connect.controllers, lambda s: s["gpu1"]["connect"]["paths"][2].pop("state"), "connect.paths[2].state"),
        (
            connect.controllers,
            lambda s: s["gpu1"]["connect"]["paths"][2].update(port=True),
            "connect.paths[2].port",
        ),
        (
            storage.file_systems,
            lambda s: s["gpu1"]["storage"]["mounts"][0]["marker"].pop("owner"),
            "storage.mounts[0].marker.owner",
        ),
        (
            cache.cache,
            lambda s: s["gpu1"]["cache"]["master"]["segments"][0].update(size="1"),
            "cache.master.segments[0].size",
        ),
        (
            cache.cache,
            lambda s: s["gpu1"]["cache"]["stores"]["store-1"].update(healthy="yes"),
            "cache.stores.store-1.healthy",
        ),
    ],
)
def test_malformed_state_names_its_place(
    extract: Callable[[Any], object], spoil: Callable[[dict[str, Any]], Any], where: str
) -> None:
    states = tier_states.states()
    spoil(states)
    stage = where.partition(".")[0]
    with pytest.raises(StateError) as caught:
        extract(states["gpu1"][stage])
    assert caught.value.where == where


def test_exports_refuse_what_is_no_uuid() -> None:
    state = tier_states.target()
    state["subsystems"][tier.nqn(1)]["namespaces"]["1"]["uuid"] = ""
    with pytest.raises(StateError, match="not a UUID"):
        target.exports(state)


def test_truncated_probe_result_is_a_problem_of_its_host() -> None:
    probes = tier_states.probes()
    del probes["gpu1"]["read"]["hits_after"]
    del probes["gpu2"]["write"]
    found = readings.read(tier.plan(), tier_states.states(), probes)
    assert set(found.problems) == {("gpu1", "probe.read"), ("gpu2", "probe.write")}
    assert "hits_after" in found.problems["gpu1", "probe.read"]
    with pytest.raises(StateError):
        probe.reads("gpu1", probes["gpu1"]["read"])


def test_stale_controllers_are_readings_too() -> None:
    state = tier_states.connect("gpu1")
    state["stale"] = [
        {
            "name": "nvme9",
            "transport": "tcp",
            "state": "live",
            "nqn": tier.nqn(3),
            "address": "192.0.2.11",
            "port": "4420",
            "source_address": "",
        }
    ]
    assert connect.controllers(state)[-1].name == "nvme9"


def test_reader_refuses_booleans_as_numbers_and_gives_none_for_null() -> None:
    reader = Reader({"a": True, "b": None, "c": [1, "x"]})
    with pytest.raises(StateError):
        reader.integer("a")
    assert reader.optional_integer("b") is None
    with pytest.raises(StateError) as caught:
        reader.integers("c")
    assert caught.value.where == "c[1]"
