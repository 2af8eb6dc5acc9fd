"""DH-HMAC-CHAP keys on a box that runs nvmet: which host has to prove itself with which key.

The kernel asks for a key when a controller is made and when one proves itself again; sessions that exist go on. So a
new key is set here first, and the hosts then take it over one path at a time.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import nvmet
from .converge import Change, Finding
from .dhchap import Keys, digest, kernel_lacks, keys_file, load_keys, problem, read_keys
from .host import Host
from .managed import CONFIG
from .plans import File, TargetPlan

KEYS_FILE = CONFIG + "/target-keys.json"
_REMEDY = "run: g35ctl deploy --only target"


class KeyRing:
    """The keys of a box: those of this run, else those the box keeps. ``files`` keeps the ones of this run."""

    def __init__(self, host: Host, plan: TargetPlan, secrets: Optional[Mapping[str, Any]]) -> None:
        self.host = host
        self.plan = plan
        planned = {item.host_nqn for item in plan.authentication}
        given = {nqn: keys for nqn, keys in load_keys(secrets or {}).items() if nqn in planned}
        self.given = given
        self.keys: Mapping[str, Keys] = given or (read_keys(host, KEYS_FILE) if planned else {})
        self.files: Tuple[File, ...] = (keys_file(KEYS_FILE, given),) if given else ()

    def preflight(self) -> List[Finding]:
        """Keys that cannot be used, and a kernel that cannot ask for any."""
        found = []
        for item in self.plan.authentication:
            keys = self.given.get(item.host_nqn)
            for path, key, planned in (
                (item.key_file, keys.key if keys else "", item.digest),
                (item.controller_key_file, keys.controller_key if keys else "", item.controller_digest),
            ):
                why = problem(key) if key else ""
                if keys is not None and (why or digest(key) != planned):
                    observed = why or "another key than the one that was planned"
                    found.append(
                        Finding("target.key", item.host_nqn, observed, "the key of %s" % path, "plan again with it")
                    )
        if self.plan.authentication and kernel_lacks(self.host, "CONFIG_NVME_TARGET_AUTH"):
            found.append(
                Finding("target.kernel", "nvmet", "was built without CONFIG_NVME_TARGET_AUTH",
                        "in-band authentication, which g35_nvme.authentication asks for",
                        "use a kernel that has it (Debian 13, not Debian 12), or mode: none")
            )  # fmt: skip
        return found

    def read(self, ours: Sequence[str]) -> Dict[str, List[str]]:
        """Digests of the keys set for hosts of ours; hosts without one are left out."""
        found = {}
        for nqn in dict.fromkeys([*ours, *(item.host_nqn for item in self.plan.authentication)]):
            keys = nvmet.read_keys(self.host, nqn)
            if any(keys):
                found[nqn] = [digest(key) for key in keys]
        return found

    def changes(self, have: Mapping[str, Sequence[str]]) -> List[Change]:
        """Set what differs, and take back what the plan no longer asks for. ``have`` is what :meth:`read` returned."""
        todo = []
        wanted = {item.host_nqn: [item.digest, item.controller_digest] for item in self.plan.authentication}
        for nqn in sorted({*wanted, *have}):
            now, after = list(have.get(nqn, [])), wanted.get(nqn, [])
            if now != after:
                todo.append(Change("key of host %s" % nqn, _named(now), _named(after), self._writer(nqn, bool(after))))
        if not wanted and self.host.exists(KEYS_FILE):
            todo.append(Change("key file %s" % KEYS_FILE, "present", "absent", self._forget))
        return todo

    def _forget(self) -> None:
        self.host.remove_file(KEYS_FILE)

    def _writer(self, nqn: str, wanted: bool) -> Any:
        def do() -> None:
            keys = self.keys.get(nqn) if wanted else Keys("")
            if keys is None:
                raise OSError("the key of %s was not handed over: %s" % (nqn, _REMEDY))
            nvmet.write_keys(self.host, nqn, keys)

        return do

    def findings(self) -> List[Finding]:
        """A box that would forget keys at its next boot."""
        kept = {nqn: [digest(k.key), digest(k.controller_key)] for nqn, k in read_keys(self.host, KEYS_FILE).items()}
        missing = [
            item.host_nqn
            for item in self.plan.authentication
            if kept.get(item.host_nqn) != [item.digest, item.controller_digest]
        ]
        if not missing:
            return []
        return [Finding("target.key", KEYS_FILE, "without the key of %s" % ", ".join(missing), "every key", _REMEDY)]


def _named(digests: Sequence[str]) -> str:
    return "key %s" % digests[0] if digests else "none"
