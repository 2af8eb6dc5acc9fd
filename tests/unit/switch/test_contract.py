"""What every rendering holds, whatever the contract: read back from the configuration text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers import READERS
from switch_sites import PORTS, configuration, plan

from g35ctl.plan.switch.intent import ranges
from g35ctl.site.switch_vendors import vendors


@st.composite
def contracts(draw: st.DrawFn, vendor: str) -> dict[str, int]:
    """Contracts that the vendor can express."""
    facts = vendors()[vendor]
    priority = draw(st.sampled_from(facts.lossless))
    lowest = priority + 1 if facts.strict_above else 1
    dscp, cnp = draw(st.lists(st.integers(0, 63), min_size=2, max_size=2, unique=True))
    return {
        "dscp": dscp,
        "priority": priority,
        "cnp_dscp": cnp,
        "cnp_priority": draw(st.integers(lowest, 7).filter(lambda number: number != priority)),
        "bandwidth_percent": draw(st.integers(1, 99)),
    }


@pytest.mark.parametrize("vendor", PORTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_dscp_has_one_class_and_pfc_is_on_for_data_alone(vendor, data):
    traffic = data.draw(contracts(vendor))
    text = configuration(vendor, traffic)
    classes, lossless = READERS[vendor](text)
    assert sorted(classes) == list(range(64))
    assert classes.pop(traffic["dscp"]) == traffic["priority"]
    assert classes.pop(traffic["cnp_dscp"]) == (-1 if vendor == "nxos" else traffic["cnp_priority"])
    assert set(classes.values()) == {0}
    assert lossless == {traffic["priority"]}


@pytest.mark.parametrize("vendor", PORTS)
def test_rendering_again_gives_the_same_bytes(vendor):
    assert plan(vendor) == plan(vendor)
    assert [file.content.encode() for file in plan(vendor).files] == [
        file.content.encode() for file in plan(vendor).files
    ]


@pytest.mark.parametrize("vendor", PORTS)
def test_every_port_is_configured_and_verified(vendor):
    made = plan(vendor)
    for file in made.files:
        for port in PORTS[vendor]:
            assert port in file.content, (file.path, port)


@pytest.mark.parametrize("vendor", PORTS)
def test_nothing_is_told_to_push(vendor):
    lines = [line.strip() for line in configuration(vendor).splitlines() if line[:1] not in ("#", "!")]
    for command in ("nv config apply", "nv config save", "write memory", "copy running-config", "save"):
        assert not any(line.startswith(command) for line in lines)


@pytest.mark.parametrize("vendor", PORTS)
def test_without_the_watchdog_nothing_of_it_is_left(vendor):
    text = configuration(vendor, watchdog={"enabled": False})
    for word in ("watchdog", "watch-dog", "deadlock", "PFC_WD"):
        assert word not in text


@pytest.mark.parametrize("vendor", PORTS)
def test_thresholds_of_the_site_replace_the_vendors(vendor):
    own = [{"speed": "100G", "ecn_min": 208000, "ecn_max": 416000, "probability": 33}]
    text = configuration(vendor, thresholds=own)
    low, high = {"nxos": ("208", "416"), "comware": ("1000", "2000")}.get(vendor, ("208000", "416000"))
    assert low in text
    assert high in text
    assert "33" in text
    slow, fast = plan(vendor, thresholds=own).ports
    assert (slow.ecn_min, slow.ecn_max, slow.probability) == (208000, 416000, 33)
    assert fast.ecn_min != 208000


def test_models_that_need_other_words_get_them():
    assert "uc-tx-queue 3" in configuration("eos", model="DCS-7060X5-64S")
    assert "uc-tx-queue" not in configuration("eos", model="DCS-7280CR3")
    assert "\n   tx-queue 3" in configuration("eos", model="DCS-7280CR3")
    assert "dscp-mapping" not in configuration("cloudengine", model="CE16800")
    assert "dcb pfc dscp-mapping enable slot 1" in configuration("cloudengine", model="CE8851-32CQ4BQ")
    assert "c-out-8q-q3" in configuration("nxos")
    assert "c-out-8q" not in configuration("nxos", queue_mode="4q")
    assert "c-out-q1" in configuration("nxos", queue_mode="4q")
    assert "pfc_to_pg_map" in configuration("sonic", model="ACS-MSN4600C")
    assert "pfc_to_pg_map" not in configuration("sonic", model="DellEMC-Z9332f-O32")


@pytest.mark.parametrize(
    ("detection", "restoration", "expected"),
    [(100, 100, (10, 10, 10)), (400, 400, (100, 4, 4)), (5000, 5000, (500, 10, 10)), (5000, 60000, (1000, 5, 15))],
)
def test_cloudengine_counts_its_watchdog_in_fifteenths(detection, restoration, expected):
    precision, detect, recover = expected
    text = configuration(
        "cloudengine", watchdog={"detection_ms": detection, "restoration_ms": restoration, "poll_ms": 100}
    )
    if detection == restoration == 100:
        assert "deadlock-detect interval 10\n" in text
    assert f"dcb pfc deadlock-detect interval {precision}\n" in text
    assert f"priority 3 deadlock-detect time {detect}\n" in text
    assert f"priority 3 deadlock-recovery time {recover}\n" in text


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2), "0-2"), ((5, 0, 1, 7, 6), "0-1,5-7"), ((1, 1), "1")]
)
def test_lists_are_written_as_ranges(numbers, text):
    assert ranges(numbers) == text
