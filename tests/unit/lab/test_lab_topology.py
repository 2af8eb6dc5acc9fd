from __future__ import annotations

import dataclasses

import pytest

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab import GuestSpec, Rail, Topology, default_topology
from g35ctl.lab.topology import topology_from_json


def test_every_guest_of_every_lab_has_identities_of_its_own() -> None:
    labs = [default_topology("default"), default_topology("other")]
    guests = [(lab, guest) for lab in labs for guest in lab.guests]
    uuids = {lab.system_uuid(guest) for lab, guest in guests}
    machine_ids = {lab.machine_id(guest) for lab, guest in guests}
    macs = {lab.mac(guest, nic) for lab, guest in guests for nic in range(3)}
    assert len(uuids) == len(machine_ids) == len(guests)
    assert len(macs) == 3 * len(guests)
    assert not uuids & {f"{m[:8]}-{m[8:12]}-{m[12:16]}-{m[16:20]}-{m[20:]}" for m in machine_ids}


def test_identities_stay_the_same_from_run_to_run() -> None:
    first, second = default_topology(), default_topology()
    assert [first.system_uuid(guest) for guest in first.guests] == [second.system_uuid(g) for g in second.guests]


def test_mac_addresses_are_locally_administered_unicast(topology: Topology) -> None:
    for guest in topology.guests:
        assert int(topology.mac(guest, 1).split(":")[0], 16) & 0b11 == 0b10


def test_addresses_follow_rail_and_host_number(topology: Topology) -> None:
    ebof1 = topology.guest("ebof1")
    assert [topology.interface(ebof1, rail) for rail in topology.rails] == ["192.0.2.11/24", "198.51.100.11/24"]
    assert topology.rail("b").rdma_device == "rxe_eth2"


def test_serial_numbers_fit_nvme(topology: Topology) -> None:
    ebof1 = topology.guest("ebof1")
    serials = [ebof1.ssd_serial(number) for number in range(ebof1.ssds)]
    assert len(set(serials)) == 4
    assert all(len(serial) <= 20 for serial in serials)


def test_all_problems_of_a_topology_are_named_at_once() -> None:
    bad = GuestSpec("Gpu_1", 300, 512, ("gpus",), suite="sid")
    with pytest.raises(G35Error) as caught:
        Topology("UPPER", (bad, bad), (Rail("rail-a", "192.0.2.0/24", "eth1"),))
    for part in ("'UPPER'", "'Gpu_1'", "300", "'gpus'", "'sid'", "used twice", "'rail-a'"):
        assert part in caught.value.why
    assert caught.value.exit_code == Exit.USAGE


def test_an_unknown_guest_or_rail_is_answered_with_those_there_are(topology: Topology) -> None:
    with pytest.raises(G35Error, match="gpu7") as caught:
        topology.guest("gpu7")
    assert "ebof1, gpu1, gpu2" in caught.value.why
    with pytest.raises(G35Error, match="'c'"):
        topology.rail("c")


def test_a_topology_survives_being_written_down() -> None:
    topology = dataclasses.replace(default_topology("four", "trixie"), ssd_mib=64)
    assert topology_from_json(topology.to_json()) == topology


def test_tap_names_fit_an_interface_name() -> None:
    from g35ctl.lab.network import bridge_name, tap_name

    guest = GuestSpec("a234567890", 9, 512, ())
    rail = Rail("abcd", "192.0.2.0/24", "eth1")
    topology = Topology("x", (guest,), (rail,))
    assert len(tap_name(topology.guests[0], rail)) <= 15
    assert len(bridge_name(rail)) <= 15
