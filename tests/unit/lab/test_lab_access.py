from __future__ import annotations

import io
import json
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab import VmLab, commands, inventory, prerequisites, qemu, remote, seed
from g35ctl.lab.network import Link, Network


def test_a_command_reaches_the_guest_word_by_word(lab: VmLab) -> None:
    argv = lab.ssh_argv("gpu1", ["sh", "-c", "echo 'a b' > /tmp/x; exit 3"])
    assert shlex.split(argv[-1]) == ["sh", "-c", "echo 'a b' > /tmp/x; exit 3"]
    assert argv[argv.index("-p") + 1] == "22101"


def test_host_keys_are_pinned_and_always_checked(lab: VmLab) -> None:
    argv = lab.ssh_argv("ebof1")
    assert "StrictHostKeyChecking=yes" in argv
    assert "GlobalKnownHostsFile=/dev/null" in argv
    assert f"UserKnownHostsFile={lab.paths.known_hosts}" in argv
    assert remote.known_hosts(lab.topology, lab.paths).splitlines() == [
        f"[127.0.0.1]:{22100 + number} ssh-ed25519 AAAA{number + 1}" for number in range(3)
    ]


def test_the_seed_makes_a_clone_this_guest(lab: VmLab) -> None:
    guest = lab.topology.guest("gpu2")
    data = seed.build_seed(lab.topology, guest, lab.paths)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        text = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    assert text["hostname"] == "gpu2\n"
    assert text["interfaces"].splitlines() == [
        "eth0 10.0.2.15/24 -",
        "eth1 192.0.2.22/24 rxe_eth1",
        "eth2 198.51.100.22/24 rxe_eth2",
    ]
    assert text["authorized_keys"] == "ssh-ed25519 AAAA0 comment\n"
    assert text["ssh_host_ed25519_key"] == "PRIVATE 3\n"
    assert data == seed.build_seed(lab.topology, guest, lab.paths)


def test_waiting_ends_at_once_when_a_guest_died(lab: VmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.paths.guest("gpu1").console.write_text("first\nKernel panic - not syncing\n")
    with pytest.raises(G35Error, match="gpu1 ended while it booted") as caught:
        remote.wait_for_login(lab.paths, [lab.topology.guest("gpu1")], lambda line: None)
    assert "Kernel panic" in caught.value.why
    assert caught.value.exit_code == Exit.UNREACHABLE


def test_waiting_names_all_that_stay_silent(lab: VmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "running_pid", lambda paths: 1)
    monkeypatch.setattr(remote, "boot_id", lambda paths, guest, timeout: "id" if guest.name == "ebof1" else None)
    with pytest.raises(G35Error, match="gpu1, gpu2") as caught:
        remote.wait_for_login(lab.paths, lab.topology.guests, lambda line: None, timeout=0)
    assert "ebof1" not in caught.value.what
    assert "its console is silent" in caught.value.why


def test_ansible_reads_the_written_inventory_and_nothing_else(lab: VmLab, tmp_path: Path) -> None:
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader

    directory = lab.inventory_path
    inventory.prepare(directory)
    assert inventory.write(lab.topology, lab.paths, directory) is True
    assert inventory.write(lab.topology, lab.paths, directory) is False
    manager = InventoryManager(loader=DataLoader(), sources=[str(directory)])
    assert sorted(host.name for host in manager.get_hosts()) == ["ebof1", "gpu1", "gpu2"]
    assert [host.name for host in manager.get_hosts("mooncake_masters")] == ["gpu1"]
    variables = manager.get_host("gpu1").vars
    assert variables["ansible_port"] == 22101
    assert f"UserKnownHostsFile={directory}/.lab/known_hosts" in variables["ansible_ssh_common_args"]
    assert "[127.0.0.1]:22101 " in (directory / ".lab/known_hosts").read_text()


def test_a_directory_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(G35Error, match="not a lab inventory"):
        inventory.prepare(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_inventory_of_ones_own_is_completed_not_replaced(lab: VmLab, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "hosts.yml").write_text("mine: {}\n")
    inventory.prepare(own)
    inventory.write(lab.topology, lab.paths, own)
    assert (own / "hosts.yml").read_text() == "mine: {}\n"
    assert set(yaml.safe_load((own / inventory.GENERATED).read_text())["all"]["hosts"]) == {"ebof1", "gpu1", "gpu2"}


def test_every_inventory_that_was_completed_is_kept_current(lab: VmLab, tmp_path: Path) -> None:
    lab._write_inventory()
    second = VmLab("default", inventory_dir=tmp_path / "second", say=lambda line: None)
    lab.paths.guest("gpu2").port.write_text("22999\n")
    second._write_inventory()
    for directory in (lab.inventory_path, second.inventory_path):
        assert "22999" in (directory / inventory.GENERATED).read_text()
        assert "[127.0.0.1]:22999" in (directory / inventory.KNOWN_HOSTS).read_text()


def test_an_installed_package_goes_on_with_the_inventory_it_completed(
    lab: VmLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from g35ctl.lab import vmlab

    lab._write_inventory()
    monkeypatch.setattr(vmlab, "is_checkout", lambda: False)
    assert VmLab("default").inventory_path == lab.inventory_path
    shutil.rmtree(lab.inventory_path)
    monkeypatch.setattr(inventory, "is_checkout", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert VmLab("default").inventory_path == tmp_path / "g35-lab"


def test_a_busy_port_is_not_taken_and_a_free_former_one_kept(lab: VmLab) -> None:
    gpu2 = lab.topology.guest("gpu2")
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        lab.paths.guest("gpu2").port.write_text(str(busy.getsockname()[1]))
        chosen = lab._choose_port(gpu2)
        assert chosen != busy.getsockname()[1]
        assert chosen not in (22100, 22101)
        former = busy.getsockname()[1]
    assert lab._choose_port(gpu2) == former


def test_status_of_a_lab_that_never_was(lab: VmLab) -> None:
    status = lab.status()
    assert status.ok is False
    assert [guest.running for guest in status.guests] == [False, False, False]
    assert json.loads(json.dumps(status.as_json()))["guests"][0]["name"] == "ebof1"


def test_purge_deletes_the_labs_state_and_nothing_beside_it(lab: VmLab, tmp_path: Path) -> None:
    neighbour = lab.paths.root.parent / "neighbour"
    neighbour.mkdir()
    (neighbour / "ssd0.raw").write_text("data")
    lab.paths.guest("ebof1").ssd(0).write_text("data")
    lab.down()
    assert lab.paths.guest("ebof1").ssd(0).exists()
    lab.down(purge=True)
    assert not lab.paths.guest("ebof1").ssd(0).exists()
    assert (neighbour / "ssd0.raw").exists()


def test_a_network_belongs_to_one_state_directory(lab: VmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("G35_LAB_STATE")
    ordinary = VmLab("default")
    assert ordinary.network.namespace == "g35lab"
    assert VmLab("other").network.namespace == "g35lab-other"
    assert lab.network.namespace.startswith("g35lab-")
    assert lab.network.namespace != ordinary.network.namespace


def test_a_guest_that_lost_its_taps_is_started_again(lab: VmLab, monkeypatch: pytest.MonkeyPatch) -> None:
    guest = lab.topology.guest("gpu1")
    killed: list[object] = []
    monkeypatch.setattr(qemu, "running_pid", lambda paths: 1)
    monkeypatch.setattr(qemu, "kill", killed.append)
    monkeypatch.setattr(Network, "links", lambda self: (Link("gpu1-a", True), Link("gpu1-b", True)))
    assert lab._needs_start(guest) is False
    monkeypatch.setattr(Network, "links", lambda self: (Link("gpu1-a", True), Link("rail-b", True)))
    assert lab._needs_start(guest) is True
    assert killed == [lab.paths.guest("gpu1")]


def test_two_commands_cannot_change_one_lab_at_once(lab: VmLab) -> None:
    with commands.locked(lab.paths.lock, what="lab"), pytest.raises(G35Error) as caught:
        lab.down()
    assert caught.value.exit_code == Exit.LOCKED


def test_the_topology_of_a_lab_is_remembered(lab: VmLab) -> None:
    from g35ctl.lab import default_topology

    other = VmLab(topology=default_topology("deb13", "trixie"))
    other.paths.root.mkdir(parents=True)
    other.paths.topology.write_text(other.topology.to_json())
    assert VmLab("deb13").topology.suites() == ("trixie",)


def test_all_that_is_missing_is_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = prerequisites.find_missing(
        which=lambda tool: None if tool in ("qemu-img", "mmdebstrap") else f"/usr/bin/{tool}",
        uid=1000,
        tun=tmp_path / "tun",
        keyring=tmp_path / "keyring",
    )
    assert missing.packages == ("debian-archive-keyring", "mmdebstrap", "qemu-utils")
    assert len(missing.obstacles) == 2
    monkeypatch.setattr(prerequisites, "find_missing", lambda: missing)
    with pytest.raises(G35Error) as caught:
        prerequisites.require(lambda line: None, install=False)
    error = caught.value
    assert error.exit_code == Exit.PREFLIGHT_FAILED
    for part in ("qemu-img", "mmdebstrap", "root is needed", "tun"):
        assert part in error.why
    assert "apt-get install --no-install-recommends debian-archive-keyring mmdebstrap qemu-utils" in error.next_command


def test_nothing_missing_is_no_error(tmp_path: Path) -> None:
    assert not prerequisites.find_missing(which=lambda tool: tool, uid=0, tun=tmp_path, keyring=tmp_path)


def test_a_failed_command_is_quoted() -> None:
    with pytest.raises(G35Error) as caught:
        commands.run(["sh", "-c", "echo broken >&2; exit 4"], what="the step")
    assert caught.value.what == "the step failed"
    assert "exited 4: broken" in caught.value.why


def test_the_command_line_is_cheap_to_load() -> None:
    code = "import sys, g35ctl.cli.lab; print([m for m in ('yaml', 'ansible', 'paramiko') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_status_prints_json_and_exits_5_when_not_up(lab: VmLab) -> None:
    from g35ctl.cli.lab import app

    result = CliRunner().invoke(app, ["status", "-o", "json"])
    assert result.exit_code == Exit.UNREACHABLE
    assert json.loads(result.stdout)["ok"] is False


def test_an_unknown_guest_is_a_usage_error(lab: VmLab) -> None:
    from g35ctl.cli.lab import app

    result = CliRunner().invoke(app, ["fault", "poweroff", "gpu9"])
    assert isinstance(result.exception, G35Error)
    assert result.exception.exit_code == Exit.USAGE
