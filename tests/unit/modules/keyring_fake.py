"""A kernel keyring ``.nvme`` as /proc/keys shows it, for fakes of a host."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.g35.host import Host


class FakeKeyring:
    """Puts a keyring behind a Host. ``added`` and ``removed`` are identities in order."""

    def __init__(self, host: Host, present: bool = True) -> None:
        self.file: Path = host.path("/proc/keys")
        self.present = present
        self.keys: dict[str, tuple[int, bytes]] = {}
        #: replaced or taken out, and not yet swept: /proc/keys goes on listing them
        self.left: list[tuple[str, int]] = []
        self.added: list[str] = []
        self.removed: list[str] = []
        self._serial = 0x1F2E3D00
        self.number = 0x0A0B0C0D
        host.add_key = self.add  # type: ignore[method-assign]
        host.remove_key = self.remove  # type: ignore[method-assign]
        host.keyring_members = self.members  # type: ignore[method-assign]
        self.show()

    def appear(self) -> None:
        self.present = True
        self.show()

    def add(self, kind: str, description: str, payload: bytes, keyring: int) -> int:
        assert kind == "psk" and keyring == self.number and self.present
        self._serial += 1
        if description in self.keys:
            self.left.append((description, self.keys[description][0]))
        self.keys[description] = (self._serial, payload)
        self.added.append(description)
        self.show()
        return self._serial

    def remove(self, serial: int, keyring: int) -> None:
        assert keyring == self.number
        identity = next(name for name, (number, _) in self.keys.items() if number == serial)
        self.left.append((identity, serial))
        del self.keys[identity]
        self.removed.append(identity)
        self.show()

    def members(self, keyring: int) -> frozenset[int]:
        assert keyring == self.number
        return frozenset(serial for serial, _ in self.keys.values())

    def show(self) -> None:
        lines = ["3bb279b0 I--Q---     1 perm 3f010000     0     0 keyring   _ses: 1"]
        if self.present:
            lines.append(f"{self.number:08x} I------     1 perm 3f3f0000     0     0 keyring   .nvme: {len(self.keys)}")
        lines += [
            f"{serial:08x} I--Q---     1 perm 3f0b0000     0     0 psk       {identity}: {len(key)}"
            for identity, (serial, key) in self.keys.items()
        ]
        lines += [
            f"{serial:08x} I--Q---     0 perm 3f0b0000     0     0 psk       {identity}: 32"
            for identity, serial in self.left
        ]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n".join(lines) + "\n")
