"""The one door to the operating system: files, commands and time, under a root that tests can replace.

Every stage reads and writes through a :class:`Host`. Unit tests hand in a ``Host`` whose root is a directory they
filled and whose commands are answered by a script, so the logic that decides never needs the hardware.
"""

from __future__ import annotations

import ctypes
import grp
import os
import platform
import pwd
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, FrozenSet, List, Optional, Sequence

# Numbers of add_key(2) and keyctl(2), which neither glibc nor Python wraps, by machine.
_KEY_CALLS = {"x86_64": (248, 250), "aarch64": (217, 219)}
_KEYCTL_SETPERM, _KEYCTL_LINK, _KEYCTL_UNLINK, _KEYCTL_READ = 5, 8, 9, 11
_PROCESS_KEYRING = -2
#: everything for who holds the keyring; root may see, read and find the key (the handshake daemon is root)
_KEY_PERMISSIONS = 0x3F0B0000
# A command's environment: enough to find tools, nothing of the caller's, messages in one language.
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "LANG": "C"}


@dataclass(frozen=True)
class Result:
    """What a command did. ``code`` is 127 when the program is not installed, 124 when it ran out of time."""

    argv: Sequence[str]
    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    def explain(self) -> str:
        """One line for an error message: the command, its exit code and its last words."""
        words = (self.err.strip() or self.out.strip() or "no output").splitlines()[-1]
        return "%s: exit %d: %s" % (" ".join(self.argv), self.code, words)


class CommandFailed(Exception):
    """A command that had to succeed did not."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.explain())
        self.result = result


Runner = Callable[[Sequence[str], Optional[str], float], Result]


def run_process(argv: Sequence[str], stdin: Optional[str], timeout: float) -> Result:
    """Run ``argv`` without a shell in a scrubbed environment; ``timeout`` in seconds."""
    try:
        done = subprocess.run(
            list(argv), input=stdin, capture_output=True, text=True, timeout=timeout, env=_ENVIRONMENT, check=False
        )
    except FileNotFoundError:
        return Result(argv, 127, "", "%s: not installed" % argv[0])
    except subprocess.TimeoutExpired:
        return Result(argv, 124, "", "no answer within %g s" % timeout)
    return Result(argv, done.returncode, done.stdout, done.stderr)


class Host:
    """Files and commands of one host.

    ``root`` is prepended to every absolute path ("/" on a real host); ``runner`` runs commands; ``sleep`` and ``clock``
    (seconds, monotonic) can be replaced so that tests never wait.
    """

    def __init__(
        self,
        root: str = "/",
        runner: Runner = run_process,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = Path(root)
        self._runner = runner
        self.sleep = sleep
        self.clock = clock

    def path(self, absolute: str) -> Path:
        """The real path of an absolute path on this host."""
        return self.root / absolute.lstrip("/")

    def run(self, argv: Sequence[str], stdin: Optional[str] = None, timeout: float = 60.0) -> Result:
        """Run a command and return what it did; never raises for a bad exit."""
        return self._runner(list(argv), stdin, timeout)

    def must(self, argv: Sequence[str], stdin: Optional[str] = None, timeout: float = 60.0) -> Result:
        """Run a command that has to succeed; raises CommandFailed."""
        result = self.run(argv, stdin, timeout)
        if not result.ok:
            raise CommandFailed(result)
        return result

    def exists(self, absolute: str) -> bool:
        return os.path.lexists(str(self.path(absolute)))

    def read(self, absolute: str) -> Optional[str]:
        """The file's text, or None where it cannot be read (absent, or an attribute that refuses)."""
        try:
            return self.path(absolute).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def read_value(self, absolute: str) -> Optional[str]:
        """A sysfs or configfs attribute without its trailing newline and NUL, or None."""
        text = self.read(absolute)
        return None if text is None else text.rstrip("\n\0").strip()

    def list(self, absolute: str) -> List[str]:
        """Sorted names in a directory; empty where it does not exist."""
        try:
            return sorted(os.listdir(str(self.path(absolute))))
        except OSError:
            return []

    def real(self, absolute: str) -> str:
        """The path with links followed, as the host sees it (without the test root)."""
        resolved = os.path.realpath(str(self.path(absolute)))
        root = os.path.realpath(str(self.root))
        return resolved if root == "/" else "/" + os.path.relpath(resolved, root)

    def write_attribute(self, absolute: str, value: str) -> None:
        """Write a sysfs or configfs attribute in place (never by rename). Raises OSError with the path."""
        with open(str(self.path(absolute)), "w", encoding="utf-8") as handle:
            handle.write(value)

    def exchange(self, absolute: str, text: str) -> str:
        """Write to a device and read its answer through the same descriptor. Raises OSError."""
        descriptor = os.open(str(self.path(absolute)), os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            return os.read(descriptor, 4096).decode(errors="replace")
        finally:
            os.close(descriptor)

    def write_file(self, absolute: str, content: str, mode: int, owner: str = "root", group: str = "root") -> None:
        """Write a file atomically (temporary file, fsync, rename) with its mode and owner set before it appears."""
        target = self.path(absolute)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.parent / (".%s.g35" % target.name)
        descriptor = os.open(str(temporary), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(str(temporary), mode)
        if os.geteuid() == 0:
            os.chown(str(temporary), self.uid(owner), self.gid(group))
        os.replace(str(temporary), str(target))

    def make_directory(self, absolute: str) -> None:
        """Make one directory (a configfs item); one that exists is fine. Raises OSError with the path."""
        try:
            os.mkdir(str(self.path(absolute)))
        except FileExistsError:
            pass

    def remove_directory(self, absolute: str) -> None:
        """Remove an empty directory (a configfs item); absent is fine. Raises OSError with the path."""
        try:
            os.rmdir(str(self.path(absolute)))
        except FileNotFoundError:
            pass

    def make_link(self, target: str, absolute: str) -> None:
        """Make ``absolute`` a symbolic link to ``target``; one that exists is fine. Raises OSError with the path.

        Never compares what a link says with ``target``: configfs answers a relative path for an absolute one.
        """
        try:
            os.symlink(str(self.path(target)), str(self.path(absolute)))
        except FileExistsError:
            pass

    def link_name(self, absolute: str) -> Optional[str]:
        """The last part of what a symbolic link points to (configfs items link by it), or None."""
        try:
            return os.path.basename(os.readlink(str(self.path(absolute))))
        except OSError:
            return None

    def remove_file(self, absolute: str) -> None:
        """Remove a file; absent is fine."""
        try:
            self.path(absolute).unlink()
        except FileNotFoundError:
            pass

    @staticmethod
    def uid(name: str) -> int:
        return pwd.getpwnam(name).pw_uid

    @staticmethod
    def gid(name: str) -> int:
        return grp.getgrnam(name).gr_gid

    def add_key(self, kind: str, description: str, payload: bytes, keyring: int) -> int:
        """Put a key into a kernel keyring (by serial number) in place of one of that description; its serial number.

        By system call, because every tool that does it takes the key as an argument, which all users of the host can
        read. Raises OSError.
        """
        # Only who holds the keyring may change what it holds; a process that links it does, until it ends.
        self._keyctl(_KEYCTL_LINK, keyring, _PROCESS_KEYRING)
        number = _call(0, kind.encode(), description.encode(), payload, ctypes.c_size_t(len(payload)), keyring)
        try:
            self._keyctl(_KEYCTL_SETPERM, number, _KEY_PERMISSIONS)
        except OSError:
            # A daemon that holds the keyring itself, as it should, reads the key all the same.
            pass
        return number

    def remove_key(self, serial: int, keyring: int) -> None:
        """Take a key out of a kernel keyring; what uses it goes on. Raises OSError."""
        self._keyctl(_KEYCTL_UNLINK, serial, keyring)

    def keyring_members(self, keyring: int) -> FrozenSet[int]:
        """Serial numbers of what a kernel keyring holds; none where it cannot be read.

        /proc/keys does not tell: a key that was taken out or replaced stays there until the kernel sweeps.
        """
        buffer = (ctypes.c_int32 * 4096)()
        try:
            size = _call(1, _KEYCTL_READ, ctypes.c_ulong(keyring), buffer, ctypes.c_size_t(ctypes.sizeof(buffer)))
        except OSError:
            return frozenset()
        return frozenset(buffer[: min(size // 4, len(buffer))])

    @staticmethod
    def _keyctl(operation: int, first: int, second: int) -> None:
        _call(1, operation, ctypes.c_ulong(first), ctypes.c_ulong(second & 0xFFFFFFFF))

    def wait_until(self, condition: Callable[[], bool], seconds: float, interval: float = 0.5) -> bool:
        """Poll ``condition`` for at most ``seconds``; True as soon as it holds."""
        deadline = self.clock() + seconds
        while True:
            if condition():
                return True
            if self.clock() >= deadline:
                return False
            self.sleep(interval)


def _call(which: int, *arguments: object) -> int:
    """A key management system call: 0 for add_key, 1 for keyctl. Raises OSError."""
    numbers = _KEY_CALLS.get(platform.machine())
    if numbers is None:
        raise OSError("kernel keys are not supported on %s" % platform.machine())
    libc = ctypes.CDLL(None, use_errno=True)
    answer = int(libc.syscall(numbers[which], *arguments))
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def facts(host: Host) -> Dict[str, str]:
    """What every message about a host may need: kernel release and distribution id and version."""
    release = host.read_value("/proc/sys/kernel/osrelease") or ""
    found = {"kernel": release, "id": "", "version": ""}
    for line in (host.read("/etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "ID":
            found["id"] = value.strip('"')
        elif key == "VERSION_ID":
            found["version"] = value.strip('"')
    return found
