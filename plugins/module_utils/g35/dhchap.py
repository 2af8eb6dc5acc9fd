"""DH-HMAC-CHAP keys: how they look, and how they stay out of everything but the two files that need them.

A plan names keys by digest only. The keys themselves travel beside it, in a module parameter that is never logged, and
rest in one file of mode 0600 on the host that uses them, so that a boot can connect without the controller.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import struct
from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Pattern, Tuple

from .host import Host
from .plans import File

_FORM = re.compile(r"^DHHC-1:(0[0-3]):([A-Za-z0-9+/]+=*):$")
#: bytes of secret that each transformation takes; "00" takes the secret as it is, of any of the three lengths
_LENGTHS = {"00": (32, 48, 64), "01": (32,), "02": (48,), "03": (64,)}


@dataclass(frozen=True)
class Keys:
    """The keys of one host: its own, and the one by which the box proves itself (empty: it does not have to)."""

    key: str
    controller_key: str = ""


def problem(key: str) -> str:
    """What is wrong with a key in ``DHHC-1`` form; empty when nothing is.

    Checked before a key comes near the kernel, which writes what it cannot read to its log.
    """
    return interchange_problem(key, _FORM, _LENGTHS, "DHHC-1:01:<base64>:")


def interchange_problem(key: str, form: Pattern[str], lengths: Mapping[str, Tuple[int, ...]], shape: str) -> str:
    """What is wrong with a key in one of NVMe's interchange formats; empty when nothing is. Never says what is in it.

    They differ in their prefix only: ``form`` finds the hash and the base64 text, which ends in a checksum.
    """
    found = form.match(key)
    if found is None:
        return "it is not of the form %s" % shape
    try:
        raw = base64.b64decode(found.group(2), validate=True)
    except (binascii.Error, ValueError):
        return "it is not base64 between the colons"
    if len(raw) - 4 not in lengths[found.group(1)]:
        return "it holds %d bytes, which do not fit its hash %s" % (len(raw) - 4, found.group(1))
    if struct.pack("<I", binascii.crc32(raw[:-4])) != raw[-4:]:
        return "its checksum does not match: it was cut or mistyped"
    return ""


def generate(prefix: str = "DHHC-1") -> str:
    """A new key for SHA-256, in the interchange format of that prefix."""
    secret = os.urandom(32)
    return "%s:01:%s:" % (prefix, base64.b64encode(secret + struct.pack("<I", binascii.crc32(secret))).decode())


def digest(key: str) -> str:
    """What plans, states and messages call a key by; empty for no key. The key is random, so nothing can be derived."""
    return hashlib.sha256(key.encode()).hexdigest()[:12] if key else ""


def load_keys(data: Mapping[str, Any]) -> Dict[str, Keys]:
    """Host NQN to keys, from a module's ``secrets`` or a file of :func:`keys_file`. What is no key is left out."""
    found: Dict[str, Keys] = {}
    for nqn, item in data.items():
        if isinstance(item, dict) and isinstance(item.get("key"), str):
            found[nqn] = Keys(item["key"], str(item.get("controller_key") or ""))
    return found


def read_keys(host: Host, path: str) -> Dict[str, Keys]:
    """The keys that a host keeps; none where there is no such file."""
    try:
        data = json.loads(host.read(path) or "{}")
    except ValueError:
        return {}
    return load_keys(data) if isinstance(data, dict) else {}


def keys_file(path: str, keys: Mapping[str, Keys]) -> File:
    """The file that keeps keys on a host."""
    data = {nqn: asdict(item) for nqn, item in sorted(keys.items())}
    return File(path, json.dumps(data, indent=1) + "\n", "0600")


def kernel_lacks(host: Host, *options: str) -> bool:
    """Whether this kernel was certainly built without all of ``options``; False where that cannot be known."""
    text = host.read("/boot/config-%s" % (host.read_value("/proc/sys/kernel/osrelease") or ""))
    return bool(text) and not any("\n%s=y\n" % option in "\n%s\n" % text for option in options)
