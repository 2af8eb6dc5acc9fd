"""Letting go: stores, then mounts, then connections; taking over the mark of the owner before; fencing a box."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35 import connect, fencing, nvmet, release, storage
from ansible.module_utils.g35.converge import Change, Outcome, Stage, act
from ansible.module_utils.g35.host import Host
from ansible.module_utils.g35.marker import NAME
from ansible.module_utils.g35.plans import Mount, StoragePlan, Unit
from ansible.module_utils.g35.schema import dump
from ansible.module_utils.g35.storage import StorageStage
from nvme_kernel import MIB, SITE, connect_plan, namespace_uuid, nqn, storage_plan, unit_of
from test_storage import Flash, run, superblock

UNIT_FILE = """\
# Made by g35ctl for site lab; changes are overwritten.
[Unit]
Description=Flash namespace %(uuid)s (g35ctl)

[Mount]
What=/dev/disk/by-id/nvme-uuid.%(uuid)s
Where=/flash/%(uuid)s
"""


class Leaving(Flash):
    """A host that owns two namespaces and is about to own the first alone."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, (0, 1))
        for number in (0, 1):
            mount = storage_plan((number,)).mounts[0]
            self.put(f"/etc/systemd/system/{unit_of(mount)}", UNIT_FILE % {"uuid": mount.uuid})
            self.units[unit_of(mount)] = ("active", "enabled")
            self.content(superblock(namespace=mount.uuid), number)
            self.marker("gpu1", number=number)
            self.mount(f"nvme{number}n1", mount.mount_point)
        self.put("/etc/systemd/system/data.mount", "[Mount]\nWhere=/data\n")

    def _systemctl(self, words: list[str]) -> Any:
        done = super()._systemctl(words)
        if words[1] in ("disable", "stop"):
            for name in words[2:]:
                if name.endswith(".mount"):
                    where = "/" + name[: -len(".mount")].replace("-", "/").replace("\\x2d", "-")
                    if any(item.split(" ")[4] == where for item in self.mounts()):
                        self._umount(["umount", where])
        return done

    def mounts(self) -> list[str]:
        return self.path("/proc/self/mountinfo").read_text().splitlines()

    def mounted(self) -> list[str]:
        return [line.split(" ")[4] for line in self.mounts() if "/flash/" in line]


def plans(numbers: tuple[int, ...]) -> dict[str, dict[str, Any]]:
    return {"storage": dump(storage_plan(numbers)), "connect": dump(connect_plan(numbers))}


BUILDERS = {"storage": storage.build, "connect": connect.build}


@pytest.fixture
def host(tmp_path: Path) -> Leaving:
    return Leaving(tmp_path)


def test_what_the_plan_has_no_more_is_unmounted_before_it_is_disconnected(host: Leaving) -> None:
    done = release.release(host.host, plans((0,)), BUILDERS)
    assert not done["failed"], done["msg"]
    assert host.mounted() == [f"/flash/{namespace_uuid(0)}"]
    assert {item for item, _, _ in host.live()} == {nqn(0)}
    words = [" ".join(item) for item in host.commands]
    gone = unit_of(storage_plan((1,)).mounts[0])
    assert words.index(f"systemctl disable --now {gone}") < next(n for n, w in enumerate(words) if "disconnect" in w)
    assert not host.path(f"/etc/systemd/system/{gone}").exists()
    assert host.path("/etc/systemd/system/data.mount").exists()
    # The plan that the boot unit works from no longer names it.
    assert nqn(1) not in {path["nqn"] for path in json.loads(host.host.read("/etc/g35ctl/connect.json"))["paths"]}


def test_a_host_that_is_to_hold_nothing_holds_nothing_and_a_second_time_changes_nothing(host: Leaving) -> None:
    assert not release.release(host.host, plans(()), BUILDERS)["failed"]
    assert host.mounted() == [] and host.live() == []
    assert not release.release(host.host, plans(()), BUILDERS)["changed"]


def test_a_check_lets_go_of_nothing(host: Leaving) -> None:
    done = release.release(host.host, plans(()), BUILDERS, check=True)
    assert done["changed"] and len(host.mounted()) == 2 and len(host.live()) == 4


def test_a_stage_that_does_not_let_go_stops_those_below(host: Leaving) -> None:
    class Stuck(Stage):
        name = "cache"

        def read(self) -> dict[str, Any]:
            return {}

        def letting_go(self, state: dict[str, Any]) -> list[Change]:
            return [Change("store", "running", "stopped", lambda: None)]

    done = release.release(
        host.host, {"cache": {"x": 1}, **plans(())}, {**BUILDERS, "cache": lambda host, plan: Stuck(host)}
    )
    assert done["failed"] and "store" in done["msg"]
    assert len(host.live()) == 4


def test_a_fenced_host_disconnects_first(host: Leaving) -> None:
    assert not release.release(host.host, plans(()), BUILDERS, fenced=True)["failed"]
    words = [" ".join(item) for item in host.commands]
    gone = unit_of(storage_plan((1,)).mounts[0])
    assert words.index(f"systemctl disable --now {gone}") > next(n for n, w in enumerate(words) if "disconnect" in w)


def test_a_mount_that_outlived_its_ownership_is_an_error(host: Leaving) -> None:
    outcome = run(host, "verify", storage_plan((0,)))
    assert [item["check"] for item in outcome.findings if item["severity"] == "error"][:1] == ["storage.stale"]
    refused = run(host, "apply", storage_plan((0,)))
    assert refused.failed and "interrupt" in refused.message and len(host.mounted()) == 2
    assert not run(host, "apply", storage_plan((0,)), allow_disruptive=True).failed
    assert host.mounted() == [f"/flash/{namespace_uuid(0)}"]


def taken(*previous: str) -> StoragePlan:
    uuid = namespace_uuid(0)
    mount = Mount(nqn(0), 1, uuid, 400 * MIB, f"/flash/{uuid}", previous)
    return StoragePlan(SITE, "gpu2", (mount,), units=(Unit(unit_of(mount)),))


@pytest.fixture
def foreign(tmp_path: Path) -> Flash:
    """A namespace that another host has owned so far."""
    made = Flash(tmp_path)
    made.content(superblock())
    made.marker("gpu1")
    return made


def owner(flash: Flash) -> str:
    return str(json.loads((flash.files() / NAME).read_text())["owner"])


def apply(flash: Flash, plan: StoragePlan) -> Outcome:
    return act(StorageStage(flash.host, plan), "apply")


def test_a_mark_is_taken_over_only_from_whom_the_plan_names(foreign: Flash) -> None:
    for previous in ((), ("gpu9",)):
        refused = apply(foreign, taken(*previous))
        assert refused.failed and "marked for host gpu1" in refused.message and owner(foreign) == "gpu1"
    done = apply(foreign, taken("gpu9", "gpu1"))
    assert not done.failed and owner(foreign) == "gpu2"
    assert not foreign.ran("mkfs.xfs")
    # Whoever looks at the device without replaying its log must see the new mark.
    assert [words[1] for words in foreign.ran("fsfreeze")] == ["--freeze", "--unfreeze"]
    again = apply(foreign, taken("gpu9", "gpu1"))
    assert not again.changed and len(foreign.ran("fsfreeze")) == 2


def test_the_old_owner_is_refused_from_then_on(foreign: Flash) -> None:
    apply(foreign, taken("gpu1"))
    foreign._umount(["umount", f"/flash/{namespace_uuid(0)}"])
    refused = run(foreign, "apply", storage_plan())
    assert refused.failed and "marked for host gpu2" in refused.message


class Box(Host):
    """configfs as directories; links are links. ``deaf``: the kernel keeps this subsystem's controller."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root), sleep=lambda seconds: None, clock=iter(range(10_000)).__next__)  # type: ignore[arg-type]
        base = f"{nvmet.ROOT}/subsystems/{nqn(0)}"
        for folder in (
            f"{base}/allowed_hosts",
            f"{base}/namespaces",
            f"{nvmet.ROOT}/hosts",
            f"{nvmet.ROOT}/ports/1/subsystems",
        ):
            self.path(folder).mkdir(parents=True)
        for name, text in (("attr_allow_any_host", "0"), ("attr_serial", "S"), ("attr_model", "M")):
            self.path(f"{base}/{name}").write_text(text)
        nvmet.allow_host(self, nqn(0), "nqn.host")
        nvmet.link(self, "1", nqn(0))

    def controller(self) -> None:
        folder = self.path(f"/sys/kernel/debug/nvmet/{nqn(0)}/ctrl1")
        folder.mkdir(parents=True)
        (folder / "hostnqn").write_text("nqn.host\n")


def test_a_fence_drops_whoever_is_connected_and_lets_nobody_in(tmp_path: Path) -> None:
    box = Box(tmp_path)
    done = fencing.fence(box, [nqn(0), "nqn.not-here"])
    assert not done["failed"]
    assert done["state"]["subsystems"][nqn(0)] == {
        "present": True, "allowed_hosts": [], "any_host": False, "controllers": None,
    }  # fmt: skip
    assert done["state"]["subsystems"]["nqn.not-here"]["present"] is False
    assert nvmet.read_port(box, "1")["links"]  # it is back on its port, for the next owner


def test_a_controller_that_stays_is_no_fence(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.controller()
    done = fencing.fence(box, [nqn(0)])
    assert done["failed"] and "nqn.host" in done["msg"]


def test_a_check_fences_nobody(tmp_path: Path) -> None:
    box = Box(tmp_path)
    assert fencing.fence(box, [nqn(0)], check=True)["changed"]
    assert nvmet.read_subsystem(box, nqn(0))["allowed_hosts"] == ["nqn.host"]
