"""The seed: a small tar that makes one clone of the image a particular guest."""

from __future__ import annotations

import io
import tarfile

from g35ctl.lab.paths import LabPaths
from g35ctl.lab.remote import public_key
from g35ctl.lab.topology import GuestSpec, Topology

MANAGEMENT_INTERFACE = "eth0"
MANAGEMENT_ADDRESS = "10.0.2.15/24"
"""What QEMU's user network expects its guest to have."""


def build_seed(topology: Topology, guest: GuestSpec, paths: LabPaths) -> bytes:
    """The seed of one guest; the same inputs give the same bytes."""
    files = paths.guest(guest.name)
    interfaces = [f"{MANAGEMENT_INTERFACE} {MANAGEMENT_ADDRESS} -"]
    interfaces += [f"{rail.netdev} {topology.interface(guest, rail)} {rail.rdma_device}" for rail in topology.rails]
    members = {
        "authorized_keys": public_key(paths.user_key) + "\n",
        "hostname": guest.name + "\n",
        "hosts": f"127.0.0.1 localhost\n127.0.1.1 {guest.name}\n::1 localhost ip6-localhost ip6-loopback\n",
        "interfaces": "\n".join(interfaces) + "\n",
        "ssh_host_ed25519_key": files.host_key.read_text(),
        "ssh_host_ed25519_key.pub": public_key(files.host_key) + "\n",
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in members.items():
            data = text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o600
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()
