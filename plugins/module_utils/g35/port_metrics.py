"""Counters of a data port under one name each, whatever its NIC calls them (mlx5, bnxt, irdma with ice).

Unlike :mod:`.counters`, which compares two moments, zero is told too: a series that appears only with its first event
has no increase.
"""

from __future__ import annotations

import re
from typing import Iterator, Tuple

from .host import Host
from .rdma import device_of

Value = Tuple[str, Tuple[str, ...], int]
"""A metric of the catalogue, its labels after netdev and rail (priorities without ``lossless``), and its value."""

_PAUSE = re.compile(r"^(rx|tx)_(?:prio(\d)_pause|pfc_ena_frames_pri(\d)|priority_(\d)_xoff(?:\.nic)?)$")
_BYTES = re.compile(r"^(rx|tx)_(?:prio(\d)_bytes|bytes_pri(\d))$")
_DISCARDS = re.compile(
    r"^(?:(?:rx|tx)_prio\d_(?:discards|buf_discard|cong_discard)|(?:rx|tx)_(?:discards_phy|out_of_buffer)"
    r"|rx_roce_discards|rx_dropped\.nic|tx_pause_storm_(?:warning|error)_events)$"
)
#: hw_counters: congestion notification of mlx5, irdma and bnxt
_CNP = {
    "np_cnp_sent": "sent", "cnpSent": "sent", "tx_cnp_pkts": "sent",
    "rp_cnp_handled": "handled", "cnpHandled": "handled", "rx_cnp_pkts": "handled",
    "rp_cnp_ignored": "ignored", "cnpIgnored": "ignored",
}  # fmt: skip
_MARKED = ("np_ecn_marked_roce_packets", "RxECNMrkd", "rx_ecn_marked_pkts")
_ERRORS = re.compile(
    r"^(?:out_of_sequence|packet_seq_err|implied_nak_seq_err|local_ack_timeout_err|rnr_nak_retry_err|out_of_buffer"
    r"|roce_adp_retrans(?:_to)?|roce_slow_restart\w*|rx_icrc_encapsulated|(?:req|resp)_\w*err\w*|to_retransmits"
    r"|seq_err_naks_rcvd|rnr_naks_rcvd|oos_drop_count|missing_resp|retransSegs|rcvd_seq_err|sent_rnr_err"
    r"|rcvd_rnr_err|retry_exceeded_err|completer_retry_err|send_err)$"
)


def read(host: Host, netdev: str) -> Iterator[Value]:
    """Everything the port tells. What its NIC does not count is left out; raises nothing for it."""
    base = "/sys/class/net/%s" % netdev
    changes = host.read_value(base + "/carrier_changes")
    if changes is None:
        return
    yield "g35_port_carrier_changes_total", (), int(changes)
    for line in host.run(["ethtool", "-S", netdev], timeout=15.0).out.splitlines():
        name, separator, text = line.strip().partition(": ")
        if separator and text.strip().isdigit():
            yield from _ethtool(name, int(text))
    device = device_of(host, netdev)
    if device:
        yield from _rdma(host, "/sys/class/infiniband/%s/ports/1" % device)


def _ethtool(name: str, value: int) -> Iterator[Value]:
    for pattern, metric in ((_PAUSE, "g35_port_pause_frames_total"), (_BYTES, "g35_port_priority_bytes_total")):
        found = pattern.match(name)
        if found:
            yield metric, (found.group(1), next(item for item in found.groups()[1:] if item)), value
    if _DISCARDS.match(name):
        yield "g35_port_discards_total", (name,), value


def _rdma(host: Host, port: str) -> Iterator[Value]:
    for direction, name in (("tx", "port_xmit_data"), ("rx", "port_rcv_data")):
        words = host.read_value("%s/counters/%s" % (port, name))
        if words is not None and words.isdigit():
            yield "g35_rdma_bytes_total", (direction,), 4 * int(words)  # counted in words of four bytes
    for name in host.list(port + "/hw_counters"):
        text = host.read_value("%s/hw_counters/%s" % (port, name))
        if text is None or not text.isdigit():
            continue
        if name in _CNP:
            yield "g35_rdma_cnp_total", (_CNP[name],), int(text)
        elif name in _MARKED:
            yield "g35_rdma_ecn_marked_total", (), int(text)
        elif _ERRORS.match(name):
            yield "g35_rdma_errors_total", (name,), int(text)
