"""Functional check of the wire: full-size packets reach every portal unfragmented from every port that uses it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible.module_utils.g35.plans import ConnectPath

from g35ctl.observe.details import Way
from g35ctl.validate.judging import Judging
from g35ctl.validate.paths import live_paths
from g35ctl.verdict import Verdict


def judge(judging: Judging, ways: Mapping[str, tuple[Way, ...]]) -> Iterator[Verdict]:
    """One verdict for each host and portal. A portal that is silent altogether is left to paths.live."""
    for host in judging.plan.hosts:
        if host.connect is None:
            continue
        mtu = {port.netdev: port.mtu for port in host.fabric.ports} if host.fabric is not None else {}
        found = {(way.address, way.source_address): way for way in ways.get(host.name, ())}
        pairs = {(path.address, path.source_address): path for path in host.connect.paths}
        for key, path in pairs.items():
            wanted = f"{mtu.get(path.netdev, 0) or 'full-size'} bytes unfragmented over {path.netdev}"
            yield _way(judging, host.name, path, host.connect.paths, found.get(key), wanted)


def _way(
    judging: Judging, host: str, path: ConnectPath, paths: Sequence[ConnectPath], way: Way | None, wanted: str
) -> Verdict:
    check, subject = "paths.mtu", f"{path.address} on rail {path.rail}"
    missing = judging.missing("connect", host)
    if missing:
        return judging.skip(check, missing, wanted, host=host, subject=subject)
    if way is None or way.full is None:
        told = "the way was not tried" if way is None else "ping is not installed"
        remedy = "install ping (iputils) on the host, then run: g35ctl validate"
        return judging.verdict(check, False, told, wanted, host=host, subject=subject, remedy=remedy)
    if way.full:
        told = f"{way.size} bytes unfragmented over {way.netdev}"
        return judging.verdict(check, True, told, wanted, host=host, subject=subject, remedy="")
    if way.answers:
        told = f"{way.size} bytes are lost, smaller packets are answered"
        remedy = f"the MTU of a switch port or of the box on rail {path.rail} is too small; run: g35ctl doctor"
        return judging.verdict(check, False, told, wanted, host=host, subject=subject, remedy=remedy)
    own = [item for item in paths if (item.address, item.source_address) == (path.address, path.source_address)]
    if len(live_paths(own, judging.readings.controllers.get(host, ()))) == len(own):
        told = "no answer to ping, although its paths are live"
        remedy = "let the box answer ICMP echo on its rails, so that the MTU of the way can be proven"
        return judging.warn(check, told, wanted, host=host, subject=subject, remedy=remedy)
    return judging.skip(check, "the portal is silent: see paths.live", wanted, host=host, subject=subject)
