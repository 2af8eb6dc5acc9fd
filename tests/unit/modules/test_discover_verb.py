"""``g35ctl discover``: what it prints can be pasted, and what the box does not tell is named."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.g35 import box
from ansible.module_utils.g35.box_drivers import build
from ansible.module_utils.g35.host import Host
from ansible.module_utils.g35.plans import SpdkAccess
from ansible.module_utils.g35.schema import dump
from box_plans import namespace, nqn, plan
from redfish_fake import PASSWORD, UUID, Authority, RedfishBox
from spdk_fake import SpdkTarget

from g35ctl.cli import main
from g35ctl.exits import Exit
from g35ctl.site.model import Box


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["g35ctl", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[RedfishBox, list[str]]]:
    authority = Authority(tmp_path)
    items = [namespace(number) for number in (10, 2, 1)]
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    secret.chmod(0o600)
    with RedfishBox(authority, [item.nqn for item in items], [item.uuid for item in items]) as found:
        options = ["--driver", "redfish", "--address", found.address, "--username", "g35"]
        yield found, [*options, "--password-file", str(secret), "--ca-file", str(authority.ca)]


def test_what_is_printed_is_a_valid_box(service, monkeypatch, capsys, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert run(monkeypatch, "init", str(site), "--name", "one") == 0
    capsys.readouterr()
    _, options = service
    assert run(monkeypatch, "-i", str(site), "discover", "ebof9", *options) == 0
    printed = capsys.readouterr().out
    variable = yaml.safe_load(printed)["g35_ebof"]
    variable["redfish"]["password"] = "added by the operator"
    made = Box.model_validate(variable)
    assert [item.nqn for item in made.namespaces] == [nqn(1), nqn(2), nqn(10)]
    assert {str(item.uuid) for item in made.namespaces} == {namespace(number).uuid for number in (1, 2, 10)}
    assert [item.size for item in made.namespaces] == [2**40] * 3
    assert [portal.rail for portal in made.portals] == ["a", "b"]
    assert "Unknown: redfish.password" in printed and UUID in printed and PASSWORD not in printed


def test_without_a_site_the_rails_are_unknown_and_json_says_so(service, monkeypatch, capsys, tmp_path: Path) -> None:
    _, options = service
    assert run(monkeypatch, "-i", str(tmp_path / "none"), "-o", "json", "discover", "ebof9", *options) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] and told["identity"] == UUID
    assert [item["value"] for item in told["unknown"]] == [
        "redfish.password", "rail of portal 192.0.2.11:4420", "rail of portal 198.51.100.11:4420",
    ]  # fmt: skip
    assert all(item["how"] for item in told["unknown"])


def test_a_password_file_that_others_can_read_is_refused(service, monkeypatch, capsys, tmp_path: Path) -> None:
    _, options = service
    (tmp_path / "password").chmod(0o644)
    assert run(monkeypatch, "-i", str(tmp_path), "discover", "ebof9", *options) == Exit.USAGE
    assert "chmod 600" in capsys.readouterr().err


def test_a_box_that_does_not_answer_is_unreachable(service, monkeypatch, capsys, tmp_path: Path) -> None:
    _, options = service
    options[3] = "127.0.0.1:1"
    assert run(monkeypatch, "-i", str(tmp_path), "discover", "ebof9", *options) == Exit.UNREACHABLE
    assert "check the address" in capsys.readouterr().err


def test_an_unknown_box_is_told_how_to_be_asked(monkeypatch, capsys, tmp_path: Path) -> None:
    assert run(monkeypatch, "-i", str(tmp_path / "none"), "discover", "ebof9") == Exit.USAGE
    assert "--driver" in capsys.readouterr().err


def test_a_static_box_is_what_the_inventory_says_with_instructions(monkeypatch, capsys, tmp_path: Path) -> None:
    site = tmp_path / "site"
    run(monkeypatch, "init", str(site), "--name", "one", "--ssds", "2")
    capsys.readouterr()
    assert run(monkeypatch, "-i", str(site), "discover", "ebof1") == 0
    told = capsys.readouterr()
    assert Box.model_validate(yaml.safe_load(told.out)["g35_ebof"]).driver == "static"
    lines = [line for line in told.err.splitlines() if line.startswith("by hand: on ebof1, allow host NQN")]
    assert len(lines) == 2 and "(gpu1)" in lines[0]


def test_free_bdevs_of_a_new_target_are_proposed_once_and_for_ever(monkeypatch, capsys, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="g35-") as directory, SpdkTarget(Path(directory), bdevs=3) as target:
        first = plan("spdk", [namespace(0)], spdk=SpdkAccess(target.socket))
        box.act(lambda: build(Host(), dump(first)), "apply")
        outputs = []
        for _ in range(2):
            command = ["-i", str(tmp_path / "none"), "discover", "ebof9", "--driver", "spdk", "--socket", target.socket]
            assert run(monkeypatch, *command) == 0
            outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    spaces = yaml.safe_load(outputs[0])["g35_ebof"]["namespaces"]
    assert [item["bdev"] for item in spaces] == ["Nvme0n1", "Nvme1n1", "Nvme2n1"]
    assert spaces[0]["serial"] == "SSD0000"
    assert outputs[0].count("# Not exported yet") == 2
