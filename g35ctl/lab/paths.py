"""Where the lab keeps its images and its state."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path


def images_root() -> Path:
    """The image cache, shared by all labs: ``$G35_LAB_CACHE``, else the user's cache directory."""
    base = os.environ.get("G35_LAB_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).expanduser().resolve() / "g35ctl" / "images"


def state_root() -> Path:
    """The parent of every lab's state: ``$G35_LAB_STATE``, else below the user's state directory."""
    chosen = os.environ.get("G35_LAB_STATE")
    return Path(chosen).expanduser().resolve() if chosen else _home_state()


def _home_state() -> Path:
    return Path.home() / ".local" / "state" / "g35ctl" / "lab"


@dataclass(frozen=True)
class GuestPaths:
    """The files of one guest."""

    root: Path

    @property
    def overlay(self) -> Path:
        """Its root disk: a qcow2 overlay on the image."""
        return self.root / "root.qcow2"

    @property
    def image_id(self) -> Path:
        """The id of the image that the overlay stands on."""
        return self.root / "image-id"

    def ssd(self, number: int) -> Path:
        """The raw sparse file behind NVMe drive ``number``."""
        return self.root / f"ssd{number}.raw"

    @property
    def seed(self) -> Path:
        """The tar the guest reads its identity from."""
        return self.root / "seed.tar"

    @property
    def host_key(self) -> Path:
        """Its private ssh host key; the public half lies beside it."""
        return self.root / "ssh_host_ed25519_key"

    @property
    def port(self) -> Path:
        """The local TCP port that leads to its sshd."""
        return self.root / "port"

    @property
    def pid(self) -> Path:
        """QEMU's pid file."""
        return self.root / "qemu.pid"

    @property
    def qmp(self) -> Path:
        """QEMU's control socket."""
        return self.root / "qmp.sock"

    @property
    def console(self) -> Path:
        """The serial console's log."""
        return self.root / "console.log"

    @property
    def carrier_cut(self) -> Path:
        """Names of the rails whose carrier was taken away, one a line; void once QEMU is gone."""
        return self.root / "carrier-cut"


@dataclass(frozen=True)
class LabPaths:
    """The state directory of one lab."""

    root: Path

    @property
    def network_namespace(self) -> str:
        """The network namespace that goes with this state: two labs of one name in different places share nothing."""
        name = "g35lab" if self.root.name == "default" else f"g35lab-{self.root.name}"
        if self.root.parent == _home_state():
            return name
        return f"{name}-{hashlib.sha256(str(self.root).encode()).hexdigest()[:8]}"

    @property
    def lock(self) -> Path:
        """Held while a command changes the lab."""
        return self.root / "lock"

    @property
    def user_key(self) -> Path:
        """The private key that logs in as root on every guest."""
        return self.root / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        """The pinned host keys, for the lab's own use; the inventory gets a copy."""
        return self.root / "known_hosts"

    @property
    def topology(self) -> Path:
        """The topology that ``up`` brought up last."""
        return self.root / "topology.json"

    @property
    def inventory_record(self) -> Path:
        """The inventory directories that were completed, one a line, the latest last."""
        return self.root / "inventories"

    def guest(self, name: str) -> GuestPaths:
        """The files of one guest."""
        return GuestPaths(self.root / "guests" / name)


def lab_paths(name: str) -> LabPaths:
    """The state directory of the lab called ``name``."""
    return LabPaths(state_root() / name)
