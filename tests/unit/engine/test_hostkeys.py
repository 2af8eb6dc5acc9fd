"""Host keys are pinned per site, and a changed one is noticed."""

from __future__ import annotations

import base64
import socket
import threading
from pathlib import Path

import pytest

from g35ctl.engine.connections import Connection, answering, connection
from g35ctl.engine.hostkeys import HostKey, compare, fetch, pin, place, read

KEY = base64.b64encode(b"a key").decode()
OTHER = base64.b64encode(b"another").decode()


def test_known_hosts_names_a_port_other_than_22() -> None:
    assert place("192.0.2.1", 22) == "192.0.2.1"
    assert place("192.0.2.1", 2222) == "[192.0.2.1]:2222"


def test_new_pinned_and_changed_keys_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    a, b = HostKey("a", "10.0.0.1", "ssh-ed25519", KEY), HostKey("b", "10.0.0.2", "ssh-ed25519", KEY)
    pin(path, [a])
    changed = HostKey("a", "10.0.0.1", "ssh-ed25519", OTHER)
    assert compare([a, b], read([path])).pinned == (a,)
    assert compare([a, b], read([path])).new == (b,)
    assert compare([changed], read([path])).changed == (changed,)


def test_pinning_replaces_only_the_same_server(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    pin(path, [HostKey("a", "10.0.0.1", "ssh-ed25519", KEY), HostKey("b", "10.0.0.2", "ssh-ed25519", KEY)])
    pin(path, [HostKey("a", "10.0.0.1", "ssh-ed25519", OTHER)])
    assert read([path]) == {"10.0.0.1": {"ssh-ed25519": OTHER}, "10.0.0.2": {"ssh-ed25519": KEY}}
    assert path.stat().st_mode & 0o777 == 0o600


def test_fingerprint_is_the_one_ssh_keygen_prints() -> None:
    assert HostKey("a", "a", "ssh-ed25519", KEY).fingerprint == "SHA256:j6Oqsvqpt54KA5jaW1q9B4AUJEKlvoC5pkYI1xjLH80"


@pytest.mark.parametrize(
    ("variables", "direct"),
    [
        ({}, True),
        ({"ansible_ssh_common_args": "-o ProxyJump=gate"}, False),
        ({"ansible_ssh_common_args": "-J gate"}, False),
        ({"ansible_ssh_extra_args": '-o ProxyCommand="ssh gate -W %h:%p"'}, False),
        ({"ansible_connection": "local"}, False),
    ],
)
def test_hosts_behind_a_proxy_are_not_asked_directly(variables: dict[str, str], direct: bool) -> None:
    assert connection("h", variables).direct is direct


def test_connection_variables_are_read_as_ansible_reads_them() -> None:
    found = connection(
        "h",
        {
            "ansible_host": "192.0.2.9", "ansible_port": "2222",
            "ansible_ssh_common_args": "-o IdentitiesOnly=yes -o UserKnownHostsFile=/a/known",
        },
    )  # fmt: skip
    assert found == Connection("h", "192.0.2.9", 2222, True, ("/a/known",))


def test_a_real_server_gives_its_key_and_silence_is_a_failure() -> None:
    import paramiko

    server_key = paramiko.RSAKey.generate(2048)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        stream, _peer = listener.accept()
        transport = paramiko.Transport(stream)
        transport.add_server_key(server_key)
        transport.start_server(server=paramiko.ServerInterface(), event=threading.Event())
        transport.join(10)

    threading.Thread(target=serve, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        dead = unused.getsockname()[1]
    keys, failures = fetch(
        [Connection("live", "127.0.0.1", listener.getsockname()[1]), Connection("dead", "127.0.0.1", dead)]
    )
    listener.close()
    assert [(key.host, key.key) for key in keys] == [("live", server_key.get_base64())]
    assert [(item.host, item.check) for item in failures] == [("dead", "ssh.connect")]


def test_every_silent_host_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        dead = unused.getsockname()[1]
    found = answering([Connection("a", "127.0.0.1", dead), Connection("b", "127.0.0.1", dead)], seconds=2.0)
    assert [item.host for item in found] == ["a", "b"]
