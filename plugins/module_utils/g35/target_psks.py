"""TLS keys on a box that runs nvmet: one for each host and subsystem, in the keyring its ports were made with."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from .converge import Change, Finding
from .dhchap import kernel_lacks
from .host import Host
from .plans import TargetPlan
from .psk_ring import KEPT, PskRing

#: the TLS keys of the hosts of a box
PSK_FILE = KEPT[1]


class TargetPsks(PskRing):
    """The TLS keys of a box: those of this run, else those the box keeps."""

    def __init__(self, host: Host, plan: TargetPlan, secrets: Optional[Mapping[str, Any]]) -> None:
        pairs = [(name, item.nqn) for item in plan.namespaces for name in item.allowed_hosts]
        super().__init__(host, "target", plan.tls, tuple(dict.fromkeys(pairs)), PSK_FILE, secrets)
        self.subsystems = [item.nqn for item in plan.namespaces]

    def preflight(self) -> List[Finding]:
        found = super().preflight()
        if self.planned and kernel_lacks(self.host, "CONFIG_NVME_TARGET_TCP_TLS"):
            found.append(
                Finding("target.kernel", "nvmet-tcp", "was built without CONFIG_NVME_TARGET_TCP_TLS",
                        "TLS, which g35_nvme.tls asks for",
                        "use a kernel that has it (Debian 13, not Debian 12), or g35_nvme.tls.mode: none")
            )  # fmt: skip
        return found

    def target_changes(self, state: Mapping[str, Any]) -> List[Change]:
        """What is to be done before any port lets a host in. ``state`` is what the stage read."""
        return self.changes([*self.subsystems, *state["previous"]["subsystems"]])

    def target_leaving(self, state: Mapping[str, Any]) -> List[Change]:
        return self.leaving([*self.subsystems, *state["previous"]["subsystems"]])
