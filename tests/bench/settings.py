"""What both sides of the bench bring about on a host: 40 settings as a storage host has them, in a directory.

The same data feeds the module (one execution) and the plain playbook (one task per setting), so that both must end in
the same tree.
"""

from __future__ import annotations

from typing import Any

_SYSCTLS = {
    "net.core.rmem_max": "268435456", "net.core.wmem_max": "268435456", "net.ipv4.tcp_rmem": "4096 87380 134217728",
    "net.ipv4.tcp_wmem": "4096 65536 134217728", "net.core.netdev_max_backlog": "250000", "vm.swappiness": "1",
    "vm.max_map_count": "16777216", "vm.dirty_ratio": "10", "net.ipv4.conf.all.arp_ignore": "2",
    "net.ipv4.conf.all.arp_announce": "1", "kernel.numa_balancing": "0", "vm.zone_reclaim_mode": "0",
}  # fmt: skip
_MODULES = ("nvme_fabrics", "nvme_rdma", "rdma_cm", "rdma_ucm", "ib_uverbs", "nvmet", "nvmet_rdma")
_UNITS = ("connect", "heal", "fabric", "master", "store", "firewall")
_ATTRIBUTES = {"mtu": "4200", "pfc": "3", "ets": "50", "tos": "106", "iopolicy": "round-robin", "dcbx": "host ieee"}


def settings(name: str) -> dict[str, Any]:
    """Files and attributes of one host; attributes are written in place, as sysfs wants it."""
    files = {f"etc/sysctl.d/60-{key}.conf": f"{key} = {value}\n" for key, value in _SYSCTLS.items()}
    files |= {f"etc/modules-load.d/{module}.conf": f"{module}\n" for module in _MODULES}
    files |= {
        f"etc/systemd/system/bench-{unit}.service": (
            f"[Unit]\nDescription={unit} of {name}\n\n[Service]\nExecStart=/bin/true\n"
        )
        for unit in _UNITS
    }
    files |= {
        "etc/nvme/hostnqn": f"nqn.2014-08.org.nvmexpress:uuid:{name}\n",
        "etc/nvme/hostid": f"{name}\n",
        "etc/security/limits.d/60-memlock.conf": "* soft memlock unlimited\n* hard memlock unlimited\n",
        "etc/udev/rules.d/71-iopolicy.rules": 'ACTION=="add", SUBSYSTEM=="nvme-subsystem"\n',
        "etc/modprobe.d/nvme.conf": "options nvme_core multipath=Y\n",
        "etc/fstab.d/flash": "/dev/nvme0n1 /flash xfs noatime 0 0\n",
        "etc/hosts.d/rails": "192.0.2.11 ebof1-a\n198.51.100.11 ebof1-b\n",
    }
    return {"files": files, "attributes": {f"sys/{key}": value for key, value in _ATTRIBUTES.items()}}


DIRECTORIES = (
    "etc/sysctl.d", "etc/modules-load.d", "etc/systemd/system", "etc/nvme", "etc/security/limits.d", "etc/udev/rules.d",
    "etc/modprobe.d", "etc/fstab.d", "etc/hosts.d", "sys",
)  # fmt: skip
