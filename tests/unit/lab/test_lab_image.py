from __future__ import annotations

import dataclasses
import lzma
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from g35ctl.errors import G35Error
from g35ctl.lab import image as image_module
from g35ctl.lab import recipe as recipe_module
from g35ctl.lab.image import configure_tree, ensure_image
from g35ctl.lab.initramfs import Entry, cpio_newc, module_order, read_module
from g35ctl.lab.recipe import FILES, file_bytes, recipe


def test_every_input_of_the_recipe_changes_the_image_id() -> None:
    base = recipe("bookworm")
    variants = [
        dataclasses.replace(base, suite="trixie"),
        dataclasses.replace(base, packages=(*base.packages, "jq")),
        dataclasses.replace(base, masked_units=()),
        dataclasses.replace(base, unwanted_modules=()),
        dataclasses.replace(base, rdma_modules=()),
        dataclasses.replace(base, mirror="file:///mirror"),
        *(
            dataclasses.replace(base, file_digests=tuple((n, "0" if n == name else d) for n, d in base.file_digests))
            for name in FILES
        ),
    ]
    assert len({variant.image_id for variant in [base, *variants]}) == len(variants) + 1


def test_only_what_a_costly_step_depends_on_repeats_it() -> None:
    base = recipe("bookworm")
    seed = dataclasses.replace(
        base, file_digests=tuple((n, "0" if n == "g35-lab-seed" else d) for n, d in base.file_digests)
    )
    module = dataclasses.replace(
        base, file_digests=tuple((n, "0" if n == "g35dcb.c" else d) for n, d in base.file_digests)
    )
    assert (seed.base_id, seed.module_id) == (base.base_id, base.module_id)
    assert module.base_id == base.base_id
    assert module.module_id != base.module_id


def test_debian_13_packages_carry_their_new_names() -> None:
    assert "libcurl4t64" in recipe("trixie").packages
    assert "libcurl4" not in recipe("trixie").packages
    assert "libcurl4" in recipe("bookworm").packages


@pytest.mark.parametrize("script", ["build_module.sh", "g35-lab-seed", "initramfs_init"])
def test_shell_scripts_parse(script: str) -> None:
    done = subprocess.run(["sh", "-n"], input=file_bytes(script), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


class _Tools:
    """Stands for the build tools: remembers what ran, and fails where told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[str] = []
        self.fail_at = ""
        monkeypatch.setattr(image_module, "run_logged", self)
        monkeypatch.setattr(image_module.initramfs, "entries_from_tree", lambda tree, kernel, init: [])

    def __call__(self, argv: Sequence[str], log: Path, *, what: str) -> None:
        tool = next(word for word in argv if word in ("mmdebstrap", "tar", "sh", "chroot", "mke2fs"))
        if tool == self.fail_at:
            raise G35Error(f"{what} failed")
        self.ran.append(tool)
        if tool == "mmdebstrap":
            assert argv[0] == "unshare"
            Path(argv[argv.index("bookworm") + 1]).write_text("tar")
        elif tool == "tar":
            tree = Path(argv[-1])
            (tree / "lib/modules/6.1.0-1-amd64").mkdir(parents=True)
            (tree / "boot").mkdir()
            (tree / "boot/vmlinuz-6.1.0-1-amd64").write_text("kernel")
        elif tool == "sh":
            assert argv[0] == "unshare"
            (Path(argv[-1]) / "usr/src/g35dcb/g35dcb.ko").write_text("module")
        elif tool == "mke2fs":
            Path(argv[-2]).write_text("disk")


def test_an_interrupted_build_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("G35_LAB_CACHE", str(tmp_path))
    tools = _Tools(monkeypatch)
    said: list[str] = []
    tools.fail_at = "mke2fs"
    with pytest.raises(G35Error):
        ensure_image("bookworm", said.append)
    assert tools.ran == ["mmdebstrap", "tar", "sh", "tar", "chroot"]
    assert image_module.cached_image(recipe("bookworm").image_id) is None

    tools.ran, tools.fail_at = [], ""
    image = ensure_image("bookworm", said.append)
    assert tools.ran == ["tar", "chroot", "mke2fs"]
    assert image.complete
    assert not list(image.root.glob("*.part"))

    tools.ran = []
    assert ensure_image("bookworm", said.append) == image
    assert tools.ran == []


def test_two_recipes_share_the_package_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("G35_LAB_CACHE", str(tmp_path))
    tools = _Tools(monkeypatch)
    first = ensure_image("bookworm", lambda line: None)
    monkeypatch.setattr(recipe_module, "MASKED_UNITS", ())
    tools.ran = []
    second = ensure_image("bookworm", lambda line: None)
    assert second.image_id != first.image_id
    assert "mmdebstrap" not in tools.ran


def test_a_configured_tree_has_no_identity_and_no_ballast(tmp_path: Path) -> None:
    ssh = tmp_path / "etc/ssh"
    ssh.mkdir(parents=True)
    (ssh / "ssh_host_rsa_key").write_text("shared by every clone")
    wants = tmp_path / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    # Absolute and dangling from here, as in a real tree.
    (wants / "chrony.service").symlink_to("/nowhere/lib/systemd/system/chrony.service")
    (wants / "ssh.service").symlink_to("/nowhere/lib/systemd/system/ssh.service")

    configure_tree(tmp_path, recipe("bookworm"))

    assert not list(ssh.glob("ssh_host_*"))
    assert {path.name for path in wants.iterdir()} == {"ssh.service"}
    assert (tmp_path / "etc/systemd/system/nvmf-autoconnect.service").readlink() == Path("/dev/null")
    assert (tmp_path / "usr/local/sbin/g35-lab-seed").stat().st_mode & 0o111
    assert (tmp_path / "etc/systemd/system/sysinit.target.wants/g35-lab-seed.service").exists()
    assert "blacklist kvm_amd" in (tmp_path / "etc/modprobe.d/g35lab.conf").read_text()
    assert "netdevs=eth1,eth2" in (tmp_path / "etc/modprobe.d/g35dcb.conf").read_text()


DEP = """\
kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko kernel/fs/mbcache.ko
kernel/fs/jbd2/jbd2.ko:
kernel/lib/crc16.ko:
kernel/fs/mbcache.ko:
kernel/net/virtio_net.ko.xz: kernel/net/net_failover.ko.xz kernel/net/failover.ko.xz
kernel/net/net_failover.ko.xz: kernel/net/failover.ko.xz
kernel/net/failover.ko.xz:
"""


def test_modules_load_after_what_they_need() -> None:
    order = [Path(path).name for path in module_order(DEP, "kernel/virtio/virtio_pci.ko\n", ["virtio_net", "ext4"])]
    assert order.index("failover.ko.xz") < order.index("net_failover.ko.xz") < order.index("virtio_net.ko.xz")
    assert order[-1] == "ext4.ko"
    assert len(order) == len(set(order)) == 7


def test_a_built_in_module_needs_no_loading_and_an_unknown_one_is_an_error() -> None:
    assert module_order(DEP, "kernel/drivers/virtio/virtio-pci.ko\n", ["virtio_pci"]) == []
    with pytest.raises(G35Error, match="virtio_blk"):
        module_order(DEP, "", ["virtio_blk"])


def test_compressed_modules_are_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.ko.xz").write_bytes(lzma.compress(b"ELF"))
    (tmp_path / "b.ko").write_bytes(b"ELF")
    assert read_module(tmp_path / "a.ko.xz") == read_module(tmp_path / "b.ko") == b"ELF"


def _unpack(archive: bytes) -> dict[str, tuple[int, bytes]]:
    found, at = {}, 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = archive[at + 110 : at + 110 + fields[11] - 1].decode()
        data_at = (at + 110 + fields[11] + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        found[name] = (fields[1], archive[data_at : data_at + fields[6]])
        at = (data_at + fields[6] + 3) // 4 * 4


def test_the_archive_unpacks_to_what_went_in() -> None:
    entries = [Entry("dev", 0o040755), Entry("init", 0o100755, b"#!/bin/sh\n"), Entry("bin/sh", 0o120777, b"busybox")]
    archive = cpio_newc(entries)
    assert _unpack(archive) == {entry.path: (entry.mode, entry.data) for entry in entries}
    assert archive == cpio_newc(entries)
