"""Leads local ports into the network namespaces of a container lab: ``PORT=NAMESPACE FILE=ADDRESS:PORT`` each.

Run as ``python -m g35ctl.lab.container_forward``. A listening socket stays in the namespace in which it was made, so
each of these is bound to 127.0.0.1 here, and the thread that serves it then enters the guest's namespace to dial.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOCAL = "127.0.0.1"
_CLONE_NEWNET = 0x40000000
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Forward:
    """One local port and where it leads."""

    port: int
    namespace: Path
    address: str
    target: int

    def word(self) -> str:
        """The command line word that :meth:`parse` reads back."""
        return f"{self.port}={self.namespace}={self.address}:{self.target}"

    @staticmethod
    def parse(word: str) -> Forward:
        """Raises ValueError."""
        port, namespace, target = word.split("=")
        address, _, number = target.rpartition(":")
        return Forward(int(port), Path(namespace), address, int(number))


def enter(namespace: Path) -> None:
    """Move the calling thread into a network namespace. Raises OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if library.setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(namespace))
    finally:
        os.close(descriptor)


def serve(forward: Forward, listener: socket.socket) -> None:
    """Accept until the listener is closed. Each connection is dialled from within the namespace as it is then."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            if listener.fileno() < 0:
                return
            time.sleep(0.1)  # out of descriptors for a moment
            continue
        threading.Thread(target=_connect, args=(forward, client), daemon=True).start()


def _connect(forward: Forward, client: socket.socket) -> None:
    try:
        enter(forward.namespace)
        server = socket.create_connection((forward.address, forward.target), timeout=10)
    except OSError:
        client.close()
        return
    server.settimeout(None)
    for one in (client, server):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    pump(client, server)


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until the source ends, then end the sink's input; the other direction goes on."""
    with contextlib.suppress(OSError):
        while block := source.recv(_BLOCK):
            sink.sendall(block)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def main(words: Sequence[str]) -> None:
    """Listen on every port, then serve them all until killed. Raises OSError for a port that is taken."""
    forwards = [Forward.parse(word) for word in words]
    listeners = [socket.create_server((LOCAL, item.port), backlog=128) for item in forwards]
    threads = [threading.Thread(target=serve, args=pair, daemon=True) for pair in zip(forwards, listeners, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1:])
