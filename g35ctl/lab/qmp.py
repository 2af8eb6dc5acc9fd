"""A small client for QEMU's control protocol: one command for each connection, as the lab needs few."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from g35ctl.errors import G35Error


def execute(
    path: Path, command: str, arguments: Mapping[str, object] | None = None, *, timeout: float = 10.0
) -> object:
    """Run one QMP command on the socket at ``path`` and return its result.

    Raises :class:`G35Error` when nothing listens there, the answer is late, or QEMU refuses.
    """
    try:
        with _connect(path, timeout) as channel, channel.makefile("rwb") as stream:
            _answer(stream.readline())
            for name, options in (("qmp_capabilities", None), (command, arguments)):
                request: dict[str, object] = {"execute": name}
                if options:
                    request["arguments"] = dict(options)
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                message = _answer(stream.readline())
                while "event" in message:
                    message = _answer(stream.readline())
                if "error" in message:
                    raise G35Error(f"QEMU refused {name}", why=str(message["error"]))
            return message.get("return")
    except OSError as error:
        raise G35Error(f"QEMU does not answer on {path}", why=str(error), next_command="g35ctl lab status") from error


def _connect(path: Path, timeout: float) -> socket.socket:
    """Connect through a descriptor of the directory: the path itself may be longer than a socket address can be."""
    directory = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel.settimeout(timeout)
        try:
            channel.connect(f"/proc/self/fd/{directory}/{path.name}")
        except BaseException:
            channel.close()
            raise
        return channel
    finally:
        os.close(directory)


def _answer(line: bytes) -> dict[str, object]:
    if not line:
        raise ConnectionResetError("QEMU closed the connection")
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ConnectionResetError("QEMU spoke something that is not QMP")
    return message
