"""How long loading, checking and planning a large site takes: ``python tests/bench/plan_scale.py``.

Writes an inventory of HOSTS x BOXES x SSDS, then times what ``g35ctl check`` and ``g35ctl plan`` do. Figures are CPU
seconds of this process. Arguments: hosts boxes ssds (default 1000 64 24), or ``--growth`` for a table of sizes.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import yaml

from g35ctl.engine.planning import make_plan, pending
from g35ctl.plan.build import build
from g35ctl.site.load import load

T = TypeVar("T")
GROWTH = ((125, 8), (250, 16), (500, 32), (1000, 64))


def inventory(hosts: int, boxes: int, ssds: int) -> dict:
    """A fleet on two /16 rails, shared settings in ``all``."""
    return {
        "all": {
            "vars": {
                "g35_site": {"name": "fleet"},
                "g35_fabric": {
                    "rails": [{"name": "a", "subnet": "10.0.0.0/16"}, {"name": "b", "subnet": "10.1.0.0/16"}]
                },
            },
            "children": {
                "ebof": {"hosts": {f"ebof{number}": box(number, ssds) for number in range(1, boxes + 1)}},
                "gpu_hosts": {"hosts": {f"gpu{number}": host(number) for number in range(1, hosts + 1)}},
                "mooncake_masters": {"hosts": {"gpu1": None}},
            },
        }
    }


def box(number: int, ssds: int) -> dict:
    return {
        "g35_ports": [
            {"netdev": f"eth{plane + 1}", "rail": rail, "address": f"10.{plane}.250.{number}"}
            for plane, rail in ((0, "a"), (1, "b"))
        ],
        "g35_ebof": {
            "driver": "nvmet",
            "rated_gbps": 360,
            "portals": [{"address": f"10.{plane}.250.{number}", "rail": rail} for plane, rail in ((0, "a"), (1, "b"))],
            "namespaces": [
                {
                    "nqn": f"nqn.2026-01.io.g35ctl:fleet:ebof{number}:ssd{ssd}",
                    "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{number}/{ssd}")),
                    "size": "7.68TB",
                    "device": f"/dev/disk/by-id/nvme-ssd{ssd}",
                }
                for ssd in range(1, ssds + 1)
            ],
        },
    }


def host(number: int) -> dict:
    tail = f"{number // 200}.{number % 200 + 1}"
    return {
        "g35_ports": [
            {"netdev": "eth1", "rail": "a", "address": f"10.0.{tail}"},
            {"netdev": "eth2", "rail": "b", "address": f"10.1.{tail}"},
        ]
    }


def timed(work: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def figures(hosts: int, boxes: int, ssds: int) -> Iterator[tuple[str, float]]:
    """Seconds of each step."""
    with tempfile.TemporaryDirectory(prefix="g35-bench-") as folder:
        path = Path(folder) / "hosts.yml"
        path.write_text(yaml.dump(inventory(hosts, boxes, ssds), Dumper=yaml.CSafeDumper), encoding="utf-8")
        site, seconds = timed(lambda: load(str(path)))
        yield "load and check", seconds
        plan, seconds = timed(lambda: build(site))
        yield "plan", seconds
        (_, again), seconds = timed(lambda: make_plan(str(path)))
        yield "check and plan in one", seconds
        assert again.ownership == plan.ownership
        _, seconds = timed(lambda: pending(str(path), plan))
        yield "compare with the ledger", seconds
        _, seconds = timed(plan.to_json)
        yield "plan as JSON data", seconds


def main(arguments: list[str]) -> None:
    sizes = [(*size, 24) for size in GROWTH] if arguments == ["--growth"] else [tuple(map(int, arguments))]
    for size in sizes if sizes != [()] else [(1000, 64, 24)]:
        hosts, boxes, ssds = size
        print(f"{hosts} hosts x {boxes} boxes x {ssds} SSDs")
        for name, seconds in figures(hosts, boxes, ssds):
            print(f"  {name:<26}{seconds:8.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
