"""An inventory on disk, the shape of the lab, for what needs Ansible's own loaders."""

from __future__ import annotations

from pathlib import Path

HOSTS = """\
all:
  vars:
    g35_site: {name: test}
    g35_fabric:
      mtu: 4200
      rails:
        - {name: a, subnet: 192.0.2.0/24}
        - {name: b, subnet: 198.51.100.0/24}
    g35_mooncake:
      store: {segment_size: 64MiB, local_buffer_size: 32MiB, bucket_size: 8MiB, bucket_keys: 8}
  children:
    ebof:
      hosts:
        ebof1:
          g35_ports:
            - {netdev: eth1, rail: a, address: 192.0.2.11}
            - {netdev: eth2, rail: b, address: 198.51.100.11}
          g35_ebof:
            driver: nvmet
            rated_gbps: 360
            portals:
              - {address: 192.0.2.11, rail: a}
              - {address: 198.51.100.11, rail: b}
            namespaces:
              - nqn: nqn.2026-01.io.g35ctl:test:ebof1:ssd1
                uuid: 0d1f7e1c-30a5-4a7b-8a51-6d9d4f1b0001
                size: 1GiB
                device: /dev/disk/by-id/nvme-ssd1
              - nqn: nqn.2026-01.io.g35ctl:test:ebof1:ssd2
                uuid: 0d1f7e1c-30a5-4a7b-8a51-6d9d4f1b0002
                size: 1GiB
                device: /dev/disk/by-id/nvme-ssd2
    gpu_hosts:
      hosts:
        gpu1:
          g35_ports:
            - {netdev: eth1, rail: a, address: 192.0.2.21}
            - {netdev: eth2, rail: b, address: 198.51.100.21}
        gpu2:
          g35_ports:
            - {netdev: eth1, rail: a, address: 192.0.2.22}
            - {netdev: eth2, rail: b, address: 198.51.100.22}
    mooncake_masters:
      hosts:
        gpu1:
"""


def write_inventory(folder: Path, text: str = HOSTS) -> Path:
    """Write the inventory below ``folder`` and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    return path
