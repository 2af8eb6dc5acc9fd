"""TLS on a host's paths: which controllers have it, with which key, and how one comes to have it.

Whether a controller uses TLS is settled when it is made; which key, at each handshake. So a controller with another key
is made anew, one path after the other, and only while every other path is live.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .connect_keys import guarded
from .connecting import Connector, Judgement, fabrics_tokens, label
from .converge import Change, Finding
from .dhchap import kernel_lacks
from .host import Host
from .nvme import Controller, Topology
from .plans import ConnectPath, ConnectPlan
from .psk_ring import KEPT, PskRing, read_ring

#: the TLS key of this host
PSK_FILE = KEPT[0]
PLAIN, SEALED, UNKNOWN = "plain text", "TLS", "unknown"
_REMEDY = "run: g35ctl deploy --only target --only connect"


class ConnectPsks(PskRing):
    """The TLS key of a host, for each subsystem it connects to."""

    def __init__(self, host: Host, plan: ConnectPlan, secrets: Optional[Mapping[str, Any]]) -> None:
        pairs = tuple(dict.fromkeys((plan.host_nqn, path.nqn) for path in plan.paths))
        planned = (plan.tls,) if plan.tls else ()
        super().__init__(host, "connect", planned, pairs, PSK_FILE, secrets, only_host=plan.host_nqn)
        self.plan = plan
        self.ours: Tuple[str, ...] = plan.managed_nqns + tuple(path.nqn for path in plan.paths)

    def preflight(self) -> List[Finding]:
        """Besides keys and daemon, what the kernel says it can do (/dev/nvme-fabrics), or was built with."""
        found = super().preflight()
        known = fabrics_tokens(self.host)
        without = "tls" not in known if "traddr" in known else kernel_lacks(self.host, "CONFIG_NVME_TCP_TLS")
        if self.planned and without:
            found.append(
                Finding("connect.kernel", "nvme-tcp", "was built without CONFIG_NVME_TCP_TLS",
                        "TLS, which g35_nvme.tls asks for",
                        "use a kernel that has it (Debian 13, not Debian 12), or g35_nvme.tls.mode: none")
            )  # fmt: skip
        return found

    def tls_state(self, judgement: Judgement) -> Dict[str, Any]:
        """What :meth:`read` returns, and what each controller uses."""
        found = judgement.live + judgement.in_transit
        return {**self.read(), "controllers": {item.name: self.used(item) for _, item in found}}

    def used(self, item: Controller) -> str:
        """Plain text, TLS, or unknown while a controller is between two sessions and its kernel does not tell."""
        value = self.host.read_value("/sys/class/nvme/%s/tls_key" % item.name)
        # From 6.12 on only controllers made with TLS have the attribute; before, all over TCP do.
        if value is None or (value == "" and item.live):
            return PLAIN
        return SEALED if value else UNKNOWN

    def key_is_current(self, item: Controller) -> bool:
        """Whether a live controller's last handshake used a key that is in the keyring for it now."""
        value = self.host.read_value("/sys/class/nvme/%s/tls_key" % item.name) or ""
        try:
            serial = int(value, 16)
        except ValueError:
            return False
        return serial in read_ring(self.host).serials((self.plan.host_nqn, item.nqn))

    def lost_changes(
        self, connector: Connector, judgement: Judgement, users: Callable[[str], List[str]]
    ) -> List[Change]:
        """Controllers that are not live, and never will be: the box lets in TLS only, or none any more."""
        wanted = SEALED if self.planned else PLAIN
        todo = []
        for path, item in judgement.in_transit:
            used = self.used(item)
            if used in (wanted, UNKNOWN):
                continue
            # Made anew one after the other: the device stays as long as one controller, even a lost one, holds it.
            alone = len([other for other in judgement.in_transit + judgement.live if other[0].nqn == path.nqn]) < 2
            note = ", ".join(users(path.nqn)) if alone else ""
            todo.append(
                Change("TLS of %s" % label(path), used, wanted, _anew(connector, path, item), note, "connect.path")
            )
        return todo

    def live_changes(
        self,
        connector: Connector,
        judgement: Judgement,
        topology: Topology,
        users: Callable[[str], List[str]],
        replaced: Sequence[Tuple[str, str]] = (),
    ) -> List[Change]:
        """One change per live path that is in plain text, or uses another key. Its ``replaced`` pairs get a new key in
        this very run, before these changes are made."""
        todo: List[Change] = []
        for path, item in judgement.live:
            used = self.used(item)
            old = (self.plan.host_nqn, path.nqn) in replaced or not self.key_is_current(item)
            if used == (SEALED if self.planned else PLAIN) and not (self.planned and old):
                continue
            others = [other for other in topology.of(path.nqn) if other.live and other.name != item.name]
            serving = [] if others else users(path.nqn)
            note = "%s on %s" % (", ".join(serving), item.name) if serving else ""
            before = "another key" if used == SEALED and self.planned else used
            after = "TLS, key %s" % self.planned[0].digest if self.planned else PLAIN
            do = guarded(connector, path, _anew(connector, path, item))
            todo.append(Change("TLS of %s" % label(path), before, after, do, note, "connect.tls"))
        return todo

    def replaced_pairs(self) -> List[Tuple[str, str]]:
        """Pairs whose key this run is going to put in place."""
        ring = read_ring(self.host)
        return [pair for pair in self.pairs if not (self._wanted(pair) or {""}) <= set(ring.keys)]

    def path_findings(self, state: Mapping[str, Any], judgement: Judgement) -> List[Finding]:
        """Live paths that are not as planned."""
        found = []
        wanted = "TLS, key %s" % self.planned[0].digest if self.planned else PLAIN
        for path, item in judgement.live:
            used = state["controllers"].get(item.name, PLAIN)
            if used != (SEALED if self.planned else PLAIN):
                found.append(Finding("connect.tls", label(path), used, wanted, _REMEDY))
            elif self.planned and not self.key_is_current(item):
                found.append(Finding("connect.tls", label(path), "TLS with another key", wanted, _REMEDY))
        return found


def _anew(connector: Connector, path: ConnectPath, item: Controller) -> Callable[[], None]:
    def do() -> None:
        connector.disconnect([item.name])
        connector.connect([path])
        if path in connector.reasons:
            raise OSError("%s; the other paths stay as they are" % connector.reasons[path])

    return do
