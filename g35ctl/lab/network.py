"""The lab's data network: one bridge for each rail and one tap for each data NIC, in a network namespace of their own.

A tap is made where QEMU runs, so that QEMU holds its descriptor, and then moved into the namespace. It is not
persistent: it goes when its QEMU goes. No interface of the namespace has an address, so nothing but guests is on it.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.lab.commands import run
from g35ctl.lab.topology import GuestSpec, Rail

MTU = 9000
"""What taps and bridges carry; how much of it the guests use is the product's to set."""

_TUNSETIFF = 0x400454CA
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_IFNAMSIZ = 16


@dataclass(frozen=True)
class Link:
    """One interface as ``ip -json link`` reports it."""

    name: str
    up: bool


def bridge_name(rail: Rail) -> str:
    """The bridge that is a rail's switch."""
    return f"rail-{rail.name}"


def tap_name(guest: GuestSpec, rail: Rail) -> str:
    """The bridge port of one guest's NIC on one rail."""
    return f"{guest.name}-{rail.name}"


def _ip(*arguments: str) -> str:
    return run(["ip", *arguments], what="setting up the lab's network", timeout=30)


@dataclass(frozen=True)
class Network:
    """The data network of one lab: the name of its namespace, and its rails."""

    namespace: str
    rails: tuple[Rail, ...]

    def exists(self) -> bool:
        """True when the lab's network namespace is there."""
        return Path("/run/netns", self.namespace).exists()

    def ensure(self) -> None:
        """Make the namespace and its bridges where they are missing."""
        if not self.exists():
            _ip("netns", "add", self.namespace)
        present = {link.name for link in self.links()}
        for rail in self.rails:
            name = bridge_name(rail)
            if name not in present:
                self._inside("link", "add", name, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
                self._inside("link", "set", name, "mtu", str(MTU))
            self._inside("link", "set", name, "up")

    def remove(self) -> None:
        """Delete the namespace with all that is in it; no error when it is not there."""
        if self.exists():
            _ip("netns", "delete", self.namespace)

    def open_tap(self, guest: GuestSpec, rail: Rail) -> int:
        """Make the tap of one NIC, attach it to its rail's bridge, and return the descriptor QEMU is to hold."""
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
        try:
            flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
            # The kernel picks a free name here; the telling one is given on the way into the namespace.
            request = struct.pack(f"{_IFNAMSIZ}sH22x", b"g35tap%d", flags)
            answer = fcntl.ioctl(descriptor, _TUNSETIFF, request)
            temporary = answer[:_IFNAMSIZ].rstrip(b"\0").decode()
            name = tap_name(guest, rail)
            _ip("link", "set", temporary, "netns", self.namespace, "name", name)
            self._inside("link", "set", name, "mtu", str(MTU), "master", bridge_name(rail))
            self._inside("link", "set", name, "up")
        except OSError as error:
            os.close(descriptor)
            raise G35Error(
                f"no tap can be made for {guest.name} on rail {rail.name}",
                why=str(error),
                next_command="check that this container may use /dev/net/tun, then g35ctl lab up",
            ) from error
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def links(self) -> tuple[Link, ...]:
        """The namespace's interfaces; none when the namespace is not there."""
        if not self.exists():
            return ()
        raw = self._inside("-json", "link", "show")
        return tuple(Link(item["ifname"], "UP" in item["flags"]) for item in json.loads(raw or "[]"))

    def attached(self, guest: GuestSpec) -> bool:
        """True when the guest has its port on every rail."""
        present = {link.name for link in self.links()}
        return all(tap_name(guest, rail) in present for rail in self.rails)

    def set_port(self, guest: GuestSpec, rail: Rail, *, up: bool) -> None:
        """Bring one guest's bridge port up or down; while it is down packets vanish and the guest is told nothing."""
        if tap_name(guest, rail) not in {link.name for link in self.links()}:
            raise G35Error(
                f"{guest.name} has no port on rail {rail.name}",
                why="its virtual machine is not running",
                next_command=f"g35ctl lab fault start {guest.name}",
            )
        self._inside("link", "set", tap_name(guest, rail), "up" if up else "down")

    def _inside(self, *arguments: str) -> str:
        return _ip("-n", self.namespace, *arguments)
