"""TLS keys in the kernel keyring ``.nvme``, and the daemon that shakes hands with them: the same on both ends.

The kernel asks the daemon tlshd (package ktls-utils) for each handshake. tlshd takes hold of the keyring when it starts
and never again, so the keyring has to be there first: at deploy by the order below, at boot by a drop-in.
Which key is in force is read from /proc/keys, where an identity of version 1 carries a digest: no key is ever read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from .converge import Change, Finding
from .dhchap import digest
from .host import Host
from .managed import CONFIG, file_changes, read_units, unit_findings
from .plans import File, TlsKey, Unit
from .tlspsk import entries, pair_of, problem

KEYRING = ".nvme"
DAEMON = Unit("tlshd.service")
#: where the stages of a host keep TLS keys
KEPT = (CONFIG + "/connect-psk.json", CONFIG + "/target-psk.json")
_MODULE = "nvme-keyring"
_KEYS = "/proc/keys"
_DROP_IN = File(
    "/etc/systemd/system/tlshd.service.d/g35-nvme.conf",
    "# From g35ctl. tlshd takes hold of the keyring .nvme once, when it starts, and finds it in /proc/keys.\n"
    "[Unit]\n"
    "Wants=modprobe@nvme_keyring.service\n"
    "After=modprobe@nvme_keyring.service\n"
    "\n"
    "[Service]\n"
    "ProcSubset=all\n",
)
_DAEMON_PLACES = ("/usr/sbin/tlshd", "/usr/bin/tlshd", "/sbin/tlshd")
_LINE = re.compile(r"^([0-9a-f]+) \S+ +\d+ +\S+ +[0-9a-f]+ +-?\d+ +-?\d+ (\S+) +(.*)$")

#: host NQN and subsystem NQN
Pair = Tuple[str, str]


@dataclass(frozen=True)
class Ring:
    """The keyring as it is: its serial number (None: it is not there) and identity to serial number of its keys."""

    serial: Optional[int]
    keys: Mapping[str, int]

    def serials(self, pair: Pair) -> Set[int]:
        """Serial numbers of the keys for a host and a subsystem."""
        return {serial for identity, serial in self.keys.items() if pair_of(identity) == pair}


def read_ring(host: Host) -> Ring:
    """The keyring ``.nvme``: names from /proc/keys, of those that it holds."""
    serial: Optional[int] = None
    listed: Dict[int, str] = {}
    for line in (host.read(_KEYS) or "").splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        number, kind, text = int(found.group(1), 16), found.group(2), found.group(3)
        description = text.rpartition(": ")[0]
        if kind == "keyring" and description == KEYRING:
            serial = number
        elif kind == "psk" and any(pair_of(description)):
            listed[number] = description
    members = host.keyring_members(serial) if serial is not None else frozenset()
    return Ring(serial, {identity: number for number, identity in listed.items() if number in members})


def load_psks(data: Mapping[str, Any]) -> Dict[str, str]:
    """Host NQN to key, from a module's ``secrets`` or a file of ours. What is no key is left out."""
    found = {}
    for nqn, item in data.items():
        if isinstance(item, dict) and isinstance(item.get("psk"), str) and item["psk"]:
            found[nqn] = item["psk"]
    return found


class PskRing:
    """The TLS keys of one stage of a host.

    ``planned`` are the keys by digest, ``pairs`` whom they are for, ``kept`` the file that keeps the keys of this run,
    ``stage`` the prefix of findings. With ``only_host`` no keys of other hosts are touched.
    """

    def __init__(
        self,
        host: Host,
        stage: str,
        planned: Sequence[TlsKey],
        pairs: Sequence[Pair],
        kept: str,
        secrets: Optional[Mapping[str, Any]],
        only_host: str = "",
    ) -> None:
        self.host = host
        self.stage = stage
        self.planned = tuple(planned)
        self.kept = kept
        self.only_host = only_host
        nqns = {item.host_nqn for item in planned}
        self.pairs = tuple(pair for pair in pairs if pair[0] in nqns)
        self.given = {nqn: key for nqn, key in load_psks(secrets or {}).items() if nqn in nqns}
        self.keys: Mapping[str, str] = self.given or (self._read_kept() if nqns else {})
        content = json.dumps({nqn: {"psk": key} for nqn, key in sorted(self.given.items())}, indent=1) + "\n"
        self.files: Tuple[File, ...] = (File(kept, content, "0600"),) if self.given else ()

    def _read_kept(self) -> Dict[str, str]:
        try:
            data = json.loads(self.host.read(self.kept) or "{}")
        except ValueError:
            return {}
        return load_psks(data) if isinstance(data, dict) else {}

    # Before anything is touched

    def preflight(self) -> List[Finding]:
        """Keys that cannot be used, and a daemon that is not installed."""
        found: List[Finding] = []
        for item in self.planned:
            key = self.given.get(item.host_nqn)
            why = problem(key) if key is not None else ""
            if key is not None and (why or digest(key) != item.digest):
                observed = why or "another key than the one that was planned"
                found.append(
                    Finding("%s.tls" % self.stage, item.host_nqn, observed, "the key of %s" % item.key_file,
                            "write a whole key there (g35ctl secrets init makes one), then plan again")
                )  # fmt: skip
        if self.planned and not any(self.host.exists(path) for path in _DAEMON_PLACES):
            found.append(
                Finding("%s.tls" % self.stage, "tlshd", "not installed", "the daemon for TLS handshakes",
                        "install the package ktls-utils")
            )  # fmt: skip
        return found

    # What is there, and what is to be

    def read(self) -> Dict[str, Any]:
        """No key: digests of the kept ones, and the identities in the keyring with their serial numbers."""
        ring = read_ring(self.host)
        kept = self._read_kept() if self.planned else {}
        return {
            "keyring": ring.serial is not None,
            "identities": dict(sorted(ring.keys.items())),
            "kept": {nqn: digest(key) for nqn, key in sorted(kept.items())},
        }

    def changes(self, ours: Sequence[str]) -> List[Change]:
        """Keyring, daemon, then one change per host and subsystem whose key is not the planned one.

        ``ours`` are the subsystems whose keys this stage answers for.
        """
        ring = read_ring(self.host)
        todo = self._daemon_changes(ring) if self.planned else []
        for pair in self.pairs:
            wanted = self._wanted(pair)
            if wanted is None or not wanted <= set(ring.keys) or self._others(ring, pair, wanted):
                todo.append(Change(_named(pair), self._before(ring, pair), self._after(pair), partial(self._put, pair)))
        todo += [
            Change(_named(pair), "in %s" % KEYRING, "absent", partial(self._take, pair))
            for pair in sorted({pair_of(identity) for identity in ring.keys} - set(self.pairs))
            if self._is_ours(pair, ours)
        ]
        if not self.planned:
            todo += [
                Change(item.path, "present", "absent", partial(self.host.remove_file, item.path))
                for item in self.gone_files()
                if self.host.exists(item.path)
            ]
        return todo

    def _is_ours(self, pair: Pair, ours: Sequence[str]) -> bool:
        return pair[1] in ours and self.only_host in ("", pair[0])

    def _daemon_changes(self, ring: Ring) -> List[Change]:
        todo: List[Change] = []
        files = file_changes(self.host, (_DROP_IN,))
        if ring.serial is None:
            todo.append(Change("keyring %s" % KEYRING, "absent", "present", self._make_keyring))
        have = read_units(self.host, (DAEMON,)).get(DAEMON.name, {})
        active = have.get("ActiveState") == "active"
        if have.get("UnitFileState") != "enabled":
            before = have.get("UnitFileState") or "absent"
            todo.append(Change(DAEMON.name, before, "enabled", partial(self._systemctl, "enable")))
        if not active or ring.serial is None or files:
            # The drop-in is written last: while it is not there, nobody knows which keyring tlshd has hold of.
            before = "perhaps older than the keyring" if active else have.get("ActiveState") or "absent"
            todo.append(Change(DAEMON.name, before, "active", self._start))
        if files:
            todo += files + [Change("systemd", "unit files changed", "reloaded", self._reload)]
        return todo

    def _make_keyring(self) -> None:
        self.host.must(["modprobe", _MODULE])

    def _systemctl(self, verb: str) -> None:
        self.host.must(["systemctl", verb, DAEMON.name], timeout=120)

    def _start(self) -> None:
        self._systemctl("restart")
        self.host.sleep(1.0)  # it says nothing when it listens, and a handshake that nobody hears fails at once

    def _reload(self) -> None:
        self.host.must(["systemctl", "daemon-reload"], timeout=120)

    def _wanted(self, pair: Pair) -> Optional[Set[str]]:
        key = self.keys.get(pair[0])
        return {item.identity for item in entries(key, *pair)} if key and not problem(key) else None

    @staticmethod
    def _others(ring: Ring, pair: Pair, wanted: Set[str]) -> List[str]:
        return [identity for identity in ring.keys if pair_of(identity) == pair and identity not in wanted]

    def _before(self, ring: Ring, pair: Pair) -> str:
        return "another key" if ring.serials(pair) else "no key"

    def _after(self, pair: Pair) -> str:
        return "key %s" % next((item.digest for item in self.planned if item.host_nqn == pair[0]), "")

    def _put(self, pair: Pair) -> None:
        """New keys first, then the old ones go: a session that exists keeps the key it was made with."""
        key = self.keys.get(pair[0])
        if not key or problem(key):
            raise OSError("the TLS key of %s was not handed over: run g35ctl deploy --only %s" % (pair[0], self.stage))
        serial = self._serial()
        wanted = entries(key, *pair)
        for item in wanted:
            self.host.add_key("psk", item.identity, item.key, serial)
        ring = read_ring(self.host)
        for identity in self._others(ring, pair, {item.identity for item in wanted}):
            self.host.remove_key(ring.keys[identity], serial)

    def _take(self, pair: Pair) -> None:
        ring = read_ring(self.host)
        for serial in ring.serials(pair):
            self.host.remove_key(serial, self._serial())

    def _serial(self) -> int:
        serial = read_ring(self.host).serial
        if serial is None:
            raise OSError("the kernel has no keyring %s: it needs CONFIG_NVME_KEYRING (Linux 6.7)" % KEYRING)
        return serial

    # Judging

    def findings(self) -> List[Finding]:
        """A host that would forget a key at its next boot, and a daemon that does not run."""
        if not self.planned:
            return []
        kept = {nqn: digest(key) for nqn, key in self._read_kept().items()}
        lost = [item.host_nqn for item in self.planned if kept.get(item.host_nqn) != item.digest]
        found = unit_findings(self.host, (DAEMON,), "%s.tls" % self.stage)
        if lost:
            observed, remedy = "without the key of %s" % ", ".join(lost), "run: g35ctl deploy --only %s" % self.stage
            found.append(Finding("%s.tls" % self.stage, self.kept, observed, "every key", remedy))
        return found

    def leaving(self, ours: Sequence[str]) -> List[Change]:
        """Take the keys of these subsystems out of the keyring; tlshd may serve others and stays."""
        ring = read_ring(self.host)
        pairs = sorted({pair_of(identity) for identity in ring.keys})
        return [
            Change(_named(pair), "in %s" % KEYRING, "absent", partial(self._take, pair))
            for pair in pairs
            if self._is_ours(pair, ours)
        ]

    def gone_files(self) -> List[File]:
        """What goes with the last key of the stage: the drop-in only if no other stage of the host needs it."""
        needed = [path for path in KEPT if path != self.kept and self.host.exists(path)]
        return [File(self.kept, "")] + ([] if needed else [_DROP_IN])


def _named(pair: Pair) -> str:
    return "TLS key of %s for %s" % pair
