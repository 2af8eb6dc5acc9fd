"""A box to converge: serves the Redfish stand-in of the unit tests until it is told to stop.

``serve.py DIRECTORY`` writes ``hosts.yml``, ``ca.pem`` and ``pid`` there, then serves, for ten minutes at most.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "unit" / "modules"))

from redfish_fake import PASSWORD, Authority, RedfishBox

LONGEST_SECONDS = 600
NAMESPACES = [
    (f"nqn.2024-01.org.example:molecule:ssd{number}", f"6d0c0c6e-0000-4000-8000-00000000000{number}")
    for number in (1, 2)
]


def inventory(box: RedfishBox, authority: Authority) -> dict[str, object]:
    """A site of this box and two hosts, which nothing connects to."""
    ebof = {
        "driver": "redfish",
        "redfish": {"addresses": [box.address], "username": "g35", "password": PASSWORD, "ca_file": str(authority.ca)},
        "portals": [
            {"rail": "a", "address": "192.0.2.11"},
            {"rail": "b", "address": "198.51.100.11"},
        ],
        "namespaces": [{"nqn": nqn, "uuid": uuid, "size": "1TiB"} for nqn, uuid in NAMESPACES],
    }
    ports = {
        f"gpu{number}": {
            "g35_ports": [
                {"netdev": "eth1", "rail": "a", "address": f"192.0.2.2{number}"},
                {"netdev": "eth2", "rail": "b", "address": f"198.51.100.2{number}"},
            ]
        }
        for number in (1, 2)
    }
    rails = [{"name": "a", "subnet": "192.0.2.0/24"}, {"name": "b", "subnet": "198.51.100.0/24"}]
    return {
        "all": {
            "vars": {"g35_site": {"name": "molecule"}, "g35_fabric": {"transport": "rdma", "rails": rails}},
            "children": {
                "ebof": {"hosts": {"box1": {"g35_ebof": ebof}}},
                "gpu_hosts": {"hosts": ports},
                "mooncake_masters": {"hosts": {"gpu1": {}}},
            },
        }
    }


def main() -> None:
    """Serve until SIGTERM."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority(directory)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    nqns, uuids = zip(*NAMESPACES, strict=True)
    with RedfishBox(authority, list(nqns), list(uuids)) as box:
        (directory / "pid").write_text(str(os.getpid()))
        (directory / "hosts.yml").write_text(yaml.safe_dump(inventory(box, authority)))
        ended.wait(LONGEST_SECONDS)


if __name__ == "__main__":
    main()
