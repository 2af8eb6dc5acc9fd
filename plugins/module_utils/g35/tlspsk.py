"""Keys for NVMe/TCP with TLS: how they look, and what of them a kernel keyring holds under which name.

A key is handed around in the interchange format of NVMe/TCP 1.1, 3.6.1 (``NVMeTLSkey-1:01:<base64>:``). What a TLS
handshake uses is derived from it for one host and one subsystem, and named by a PSK identity that both ends look up:

* version 0, ``NVMe0R01 <host NQN> <subsystem NQN>``: the only one that Linux 6.7 to 6.11 look for;
* version 1, the same with ``NVMe1`` and a digest of the key behind it: preferred since Linux 6.12, and the reason why a
  keyring can be compared with a plan without reading a single key.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
from dataclasses import dataclass
from typing import Tuple

from . import dhchap

_FORM = re.compile(r"^NVMeTLSkey-1:(0[0-2]):([A-Za-z0-9+/]+=*):$")
#: bytes of key that each hash takes; "00" (used as it is) takes either length
_LENGTHS = {"00": (32, 48), "01": (32,), "02": (48,)}
_HASHES = {32: ("01", "sha256"), 48: ("02", "sha384")}
#: the longest context that an expansion label of TLS 1.3 can carry, bytes (RFC 8446, 7.1)
_LONGEST_CONTEXT = 255
_IDENTITY = re.compile(r"^NVMe[01]R0[12] (\S+) (\S+)(?: (\S+))?$")


@dataclass(frozen=True)
class Entry:
    """What a keyring is to hold: the name a handshake looks for, and the key it then uses. Never shown."""

    identity: str
    key: bytes


def problem(key: str) -> str:
    """What is wrong with a key in interchange format; empty when nothing is. Never says what is in it."""
    return dhchap.interchange_problem(key, _FORM, _LENGTHS, "NVMeTLSkey-1:01:<base64>:")


def generate() -> str:
    """A new key for SHA-256."""
    return dhchap.generate("NVMeTLSkey-1")


def entries(key: str, host_nqn: str, subsystem: str) -> Tuple[Entry, ...]:
    """What both ends put into their keyrings for one host and one subsystem, version 1 last.

    Whoever finds version 1 there may take version 0 for granted. Names too long for a label have no version 0. Raises
    ValueError for a key that :func:`problem` refuses.
    """
    why = problem(key)
    if why:
        raise ValueError(why)
    _, transform, text, _ = key.split(":")
    configured = base64.b64decode(text)[:-4]
    cipher, name = _HASHES[len(configured)]
    retained = configured
    if transform != "00":
        retained = _derive(name, configured, b"HostNQN", host_nqn.encode())
    names = "%s %s" % (host_nqn, subsystem)
    found = []
    plain = "NVMe0R%s %s" % (cipher, names)
    if len(plain.encode()) <= _LONGEST_CONTEXT:
        found.append(Entry(plain, _derive(name, retained, b"nvme-tls-psk", plain.encode())))
    about = hmac.new(retained, ("%s NVMe-over-Fabrics" % names).encode(), name).digest()
    proof = base64.b64encode(about).decode()
    secret = _derive(name, retained, b"nvme-tls-psk", ("%s %s" % (cipher, proof)).encode())
    return (*found, Entry("NVMe1R%s %s %s" % (cipher, names, proof), secret))


def pair_of(identity: str) -> Tuple[str, str]:
    """Host NQN and subsystem NQN that an identity is for; both empty for what is none."""
    found = _IDENTITY.match(identity)
    return (found.group(1), found.group(2)) if found else ("", "")


def _derive(name: str, secret: bytes, label: bytes, context: bytes) -> bytes:
    """HKDF-Extract without salt, then HKDF-Expand-Label, as long as the hash (RFC 5869, RFC 8446 7.1)."""
    size = hashlib.new(name).digest_size
    extracted = hmac.new(bytes(size), secret, name).digest()
    full = b"tls13 " + label
    info = struct.pack(">H", size) + bytes([len(full)]) + full + bytes([len(context)]) + context
    return hmac.new(extracted, info + b"\x01", name).digest()
