"""What rises between two samples and must not: losses, discards, link flaps, and traffic in the wrong priority."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from g35ctl.observe.details import PortCounters
from g35ctl.validate.doctor.model import ERROR, INFO, WARNING, Case, Diagnosis, listed

#: RDMA counters that only ever rise when packets were lost, late or refused
SEQUENCE = re.compile(
    r"^(out_of_sequence|packet_seq_err|implied_nak_seq_err|local_ack_timeout_err|rnr_nak_retry_err|roce_adp_retrans.*"
    r"|roce_slow_restart.*|rx_icrc_encapsulated|out_of_buffer|(req|resp)_\w*err\w*|to_retransmits|seq_err_naks_rcvd"
    r"|rnr_naks_rcvd|oos_drop_count|out_of_seq_request|rcvd_seq_err|rcvd_rnr_err|retry_exceeded_err"
    r"|retry_rnr_exceeded_err|send_rnr_err|send_err|completer_retry_err|duplicate_request)$"
)
#: counters of the port that count dropped or damaged packets
DISCARDS = re.compile(
    r"^(rx_prio\d_(discards|buf_discard|cong_discard)|(rx|tx)_discards_phy|rx_out_of_buffer|rx_roce_discards"
    r"|rx_crc_errors(_phy)?|rx_symbol_err_phy|rx_missed_errors|(rx|tx)_errors(_phy)?)$"
)
STORM = re.compile(r"^tx_pause_storm_(warning|error)_events$")
_PRIORITY = re.compile(r"^(?:rx|tx)_(?:prio(\d)_bytes|bytes_pri(\d))$")
#: less RDMA traffic than this between two samples says nothing about priorities, bytes
ENOUGH = 1 << 20


def rises(before: Mapping[str, int], after: Mapping[str, int], pattern: re.Pattern[str]) -> dict[str, int]:
    """Counters that match and rose, with by how much. A counter that was reset (driver reloaded) did not rise."""
    return {
        name: value - before.get(name, 0)
        for name, value in sorted(after.items())
        if pattern.match(name) and value > before.get(name, 0)
    }


def judge(case: Case) -> Iterator[Diagnosis]:
    """Every port of every host, between the two samples."""
    for host in case.reached():
        old = {port.netdev: port for port in case.first.details.counters.get(host.name, ())}
        for port in case.now.details.counters.get(host.name, ()):
            if port.netdev in old:
                yield from _port(case, host.name, old[port.netdev], port)


def _port(case: Case, host: str, old: PortCounters, new: PortCounters) -> Iterator[Diagnosis]:
    where = f"{host} {new.netdev}"
    flaps = new.link.get("carrier_changes", 0) - old.link.get("carrier_changes", 0)
    if flaps > 0:
        yield Diagnosis(
            "link.flapping", ERROR, f"the link of {where} went down and up while it was looked at",
            (f"{host}: /sys/class/net/{new.netdev}/carrier_changes rose by {flaps} in {case.seconds:.0f} s",),
            f"check cable and optics of {new.netdev}; on {host}: ethtool -m {new.netdev}; journalctl -k | grep"
            f" {new.netdev}",
            (host,), (f"flap/{host}/{new.netdev}",), (f"errors/{host}/{new.netdev}", f"path/{host}/*"),
        )  # fmt: skip
    yield from _errors(case, host, old, new)
    yield from _priority(case, host, old, new)


def _errors(case: Case, host: str, old: PortCounters, new: PortCounters) -> Iterator[Diagnosis]:
    sequence = rises(old.rdma, new.rdma, SEQUENCE)
    discards = rises(old.ethtool, new.ethtool, DISCARDS) | rises(old.link, new.link, DISCARDS)
    storm = rises(old.ethtool, new.ethtool, STORM)
    device = new.device or new.netdev
    if storm:
        yield Diagnosis(
            "pause.storm", ERROR, f"{host} {new.netdev} pauses its switch port so long that the NIC calls it a storm",
            (_quoted(case, host, f"ethtool -S {new.netdev}", storm),),
            f"{host} receives slower than it is sent to: check PCIe width and speed of {new.netdev} (lspci -vv), its"
            " buffers and CPU load; see that the switch has a PFC watchdog",
            (host,), (f"errors/{host}/{new.netdev}",),
        )  # fmt: skip
    if discards:
        yield Diagnosis(
            "packets.discarded", ERROR, f"{host} {new.netdev} drops packets: {listed(discards)} rise",
            (_quoted(case, host, f"ethtool -S {new.netdev}", discards), *_beside(sequence, case, host, device)),
            f"the class is not lossless on the way: compare PFC and DSCP map of {host} and of its switch port (g35ctl"
            " render; show pfc counters), then cable and optics",
            (host,), (f"errors/{host}/{new.netdev}",),
        )  # fmt: skip
    elif sequence:
        # Soft-RoCE on a busy CPU sends again what was merely late: worth a line, no alarm.
        software = device.startswith(("rxe", "siw"))
        yield Diagnosis(
            "sequence.errors", INFO if software else ERROR,
            f"RDMA over {host} {new.netdev} loses packets: {listed(sequence)} rise",
            (_quoted(case, host, f"/sys/class/infiniband/{device}/ports/1/hw_counters", sequence),),
            f"packets are lost between {new.netdev} and its peers: check PFC and ECN counters of the switch ports of"
            f" this rail, then the cable; on {host}: rdma statistic show link {device}/1",
            (host,), (f"errors/{host}/{new.netdev}",),
        )  # fmt: skip


def _beside(found: Mapping[str, int], case: Case, host: str, device: str) -> tuple[str, ...]:
    return (_quoted(case, host, f"hw_counters of {device}", found),) if found else ()


def _quoted(case: Case, host: str, source: str, rose: Mapping[str, int]) -> str:
    return (
        f"{host}: {source}: {listed((f'{name} +{value}' for name, value in rose.items()), 8)} in {case.seconds:.0f} s"
    )


def _priority(case: Case, host: str, old: PortCounters, new: PortCounters) -> Iterator[Diagnosis]:
    """RDMA bytes moved, but not in the contract's priority. Only NICs that count both can tell."""
    fabric = case.plan.host(host).fabric
    if fabric is None or old.roce_bytes is None or new.roce_bytes is None:
        return
    moved = new.roce_bytes - old.roce_bytes
    by_priority: dict[int, int] = {}
    for name, rise in rises(old.ethtool, new.ethtool, _PRIORITY).items():
        match = _PRIORITY.match(name)
        assert match is not None
        priority = int(match.group(1) or match.group(2))
        by_priority[priority] = by_priority.get(priority, 0) + rise
    if moved < ENOUGH or not by_priority or by_priority.get(fabric.priority, 0) >= moved / 2:
        return
    most = max((item for item in by_priority if item != fabric.priority), key=lambda item: by_priority[item], default=0)
    yield Diagnosis(
        "traffic.priority", WARNING if by_priority.get(fabric.priority) else ERROR,
        f"RDMA traffic of {host} {new.netdev} runs in priority {most} instead of {fabric.priority}",
        (
            f"{host}: {moved} bytes of RDMA in {case.seconds:.0f} s; ethtool -S {new.netdev}: "
            + listed(f"priority {key} +{value} bytes" for key, value in sorted(by_priority.items())),
        ),
        f"connections made before the ToS was set keep theirs: on {host} compare default_roce_tos with {fabric.tos} and"
        f" the DSCP map (dcb app show dev {new.netdev}), then: g35ctl deploy --only connect --limit {host}; and see"
        " what DSCP the box sends",
        (host,), (f"priority/{host}/{new.netdev}",),
    )  # fmt: skip
