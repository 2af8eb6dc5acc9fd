"""Secrets planted in a site are found nowhere but in their own files: not in run folders, reports, output, argument
lists or environments. Real ansible-playbook and the real modules, in check mode on this machine."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest.mock import patch

import pytest
from ansible.module_utils.g35 import dhchap

from g35ctl.cli import main as cli
from g35ctl.engine.opening import open_session
from g35ctl.engine.progress import PlainLines
from g35ctl.engine.runner import Play

PASSWORD = "canary-password-5f1e0c"
TOKEN = "canary-token-77ab42"

GROUP_VARS = """\
g35_site: {name: canary}
g35_fabric:
  rails: [{name: a, subnet: 192.0.2.0/24}, {name: b, subnet: 198.51.100.0/24}]
g35_nvme:
  authentication: {mode: dhchap, controller_key_file: .keys/{host}.box}
g35_mooncake:
  store: {segment_size: 64MiB, local_buffer_size: 32MiB, bucket_size: 8MiB}
"""
HOSTS = f"""\
all:
  vars:
    ansible_connection: local
    ansible_become: false
    ansible_python_interpreter: {sys.executable}
  children:
    ebof:
      hosts:
        ebof1:
          g35_ports:
            - {{netdev: g35none1, rail: a, address: 192.0.2.11}}
            - {{netdev: g35none2, rail: b, address: 198.51.100.11}}
          g35_ebof:
            driver: nvmet
            portals: [{{address: 192.0.2.11, rail: a}}, {{address: 198.51.100.11, rail: b}}]
            namespaces:
              - {{nqn: "nqn.2026-01.io.g35ctl:canary:1", uuid: 0d1f7e1c-30a5-4a7b-8a51-6d9d4f1b0001, size: 1GiB,
                  device: /dev/disk/by-id/g35-none, owner: gpu1}}
        ebof2:
          g35_ebof:
            driver: redfish
            redfish: {{addresses: ["127.0.0.1:9"], username: g35, password: {PASSWORD}}}
            portals: [{{address: 192.0.2.12, rail: a}}, {{address: 198.51.100.12, rail: b}}]
            namespaces:
              - {{nqn: "nqn.2026-01.io.g35ctl:canary:2", uuid: 0d1f7e1c-30a5-4a7b-8a51-6d9d4f1b0002, size: 1GiB,
                  owner: gpu1}}
    gpu_hosts:
      hosts:
        gpu1:
          g35_ports:
            - {{netdev: g35none1, rail: a, address: 192.0.2.21}}
            - {{netdev: g35none2, rail: b, address: 198.51.100.21}}
    mooncake_masters:
      hosts: {{gpu1: }}
"""


class Watch(threading.Thread):
    """Looks at the argument list and environment of every process, over and over, for any of ``secrets``."""

    def __init__(self, secrets: list[str]) -> None:
        super().__init__(daemon=True)
        self.wanted = [secret.encode() for secret in secrets]
        self.stopped = threading.Event()
        self.seen: list[str] = []
        self.looks = 0

    def run(self) -> None:
        while not self.stopped.wait(0.02):
            self.look()

    def look(self) -> None:
        self.looks += 1
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            for name in ("cmdline", "environ"):
                if int(process.name) == os.getpid() and name == "environ":
                    continue  # this very test was given the token, to see that it is not handed on
                with suppress(OSError):
                    data = (process / name).read_bytes()
                    self.seen += [f"{process.name} {name}" for secret in self.wanted if secret in data]

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.join()


def holders(secrets: list[str], *roots: Path) -> list[Path]:
    """Files below ``roots`` that hold one of ``secrets``."""
    wanted = [secret.encode() for secret in secrets]
    files = [path for root in roots for path in root.rglob("*") if path.is_file()]
    return [path for path in files if any(secret in path.read_bytes() for secret in wanted)]


def g35(inventory: Path, *words: str) -> tuple[int, str]:
    """Run a verb in this process; its exit code and everything it printed."""
    out = io.StringIO()
    with (
        patch.object(sys, "argv", ["g35ctl", "-i", str(inventory), *words]), redirect_stdout(out), redirect_stderr(out),
        pytest.raises(SystemExit) as ended,
    ):  # fmt: skip
        cli.main()
    return int(ended.value.code or 0), out.getvalue()


def test_the_watch_and_the_search_would_find_a_leak(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"x {TOKEN} y")
    assert holders([TOKEN], tmp_path) == [tmp_path / "a"]
    for where in ("cmdline", "environ"):
        argv = [sys.executable, "-c", "input()", *([TOKEN] if where == "cmdline" else [])]
        environment = {"LEAKED": TOKEN} if where == "environ" else {}
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=environment)
        watch = Watch([TOKEN])
        watch.look()
        process.communicate(b"\n")
        assert f"{process.pid} {where}" in watch.seen


def test_planted_secrets_stay_where_they_were_planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("G35_STATE", raising=False)
    monkeypatch.setenv("SITE_TOKEN", TOKEN)
    site = tmp_path / "site"
    (site / "group_vars").mkdir(parents=True)
    (site / "group_vars" / "all.yml").write_text(GROUP_VARS.replace(".keys/{host}.box", "'.keys/{host}.box'"))
    (site / "hosts.yml").write_text(HOSTS)
    assert g35(site, "secrets", "init")[0] == 0
    keys = [path.read_text().strip() for path in sorted((site / ".keys").glob("gpu*"))]
    assert len(keys) == 2 and not any(dhchap.problem(key) for key in keys)
    secrets = [*keys, PASSWORD, TOKEN]
    told = []
    with Watch(secrets) as watch:
        told += [g35(site, "deploy", "--check", "--diff", "--only", stage)[1] for stage in ("target", "connect")]
        boxes = tmp_path / "boxes.yml"  # in a deploy, a box without its data ports never comes to its exports
        boxes.write_text("- {hosts: ebof1, gather_facts: false, roles: [ebof_target]}\n")
        with open_session(str(site), "validate", PlainLines(io.StringIO())) as session:
            played = session.play(Play("target", str(boxes), ("ebof1",), check=True))
    assert [event.action for event in played.events if event.findings] == ["g35_target"]
    assert watch.looks > 20 and watch.seen == []
    # All three roles with secrets really ran, and failed for want of a tier: failures tell the most.
    for text, checks in zip(told, (("fabric.", "127.0.0.1:9"), ("connect.",)), strict=True):
        assert all(f"{check}" in text for check in checks), text
    for words in (("check",), ("plan",), ("-o", "json", "plan"), ("secrets", "list"), ("runs",), ("report", "last")):
        told.append(g35(site, *words)[1])
    told.append(g35(site, "render", str(tmp_path / "rendered"))[1])
    assert not [secret for secret in secrets if any(secret in text for text in told)]
    assert list((site / ".g35" / "runs").glob("*-deploy/report.html"))
    assert set(holders(secrets, tmp_path)) == {site / "hosts.yml", *(site / ".keys").glob("gpu*")}
