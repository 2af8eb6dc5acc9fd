"""Unpacks Python wheels into a virtual environment.

A wheel is an archive laid out as it is installed, so nothing more than unpacking and writing its console scripts is
needed. pip would do the same, but has to be present, and its own start takes minutes on a slow host. Digests are
checked by the caller before a wheel comes here.
"""

from __future__ import annotations

import configparser
import os
import posixpath
import shutil
import stat
import zipfile
from typing import IO, Dict, List, Optional, Tuple

_SCRIPT = """#!{python}
import sys

from {module} import {name}

if __name__ == "__main__":
    sys.exit({call}())
"""


class WheelError(OSError):
    """A wheel that cannot be installed by unpacking it; the text names the wheel and the reason."""


def install(wheel: str, site_packages: str, scripts: str, python: str, source: Optional[IO[bytes]] = None) -> List[str]:
    """Install the wheel file ``wheel``; returns the names of the scripts it made.

    ``python`` is the interpreter that the scripts name. With ``source`` the wheel is read from there, and ``wheel`` is
    only its name: a wheel inside a tar file need not be copied out of it. Raises WheelError.
    """
    made: List[str] = []
    with zipfile.ZipFile(source if source is not None else wheel) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            base, name = _place(wheel, member.filename, site_packages, scripts)
            _extract(archive, member, posixpath.join(base, name))
            if base == scripts:
                _fix_interpreter(posixpath.join(base, name), python)
                made.append(name)
        for name, target in console_scripts(archive).items():
            _write_script(posixpath.join(scripts, name), target, python)
            made.append(name)
    return sorted(made)


def _place(wheel: str, name: str, site_packages: str, scripts: str) -> Tuple[str, str]:
    """Where a member belongs. Never outside of the two directories, whatever its name says."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "" in parts:
        raise WheelError("%s: unsafe path %r" % (os.path.basename(wheel), name))
    if not parts[0].endswith(".data"):
        return site_packages, name
    scheme, rest = parts[1], "/".join(parts[2:])
    if scheme in ("purelib", "platlib"):
        return site_packages, rest
    if scheme == "scripts":
        return scripts, rest
    raise WheelError("%s: has %s files, which this installer does not place" % (os.path.basename(wheel), scheme))


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: str) -> None:
    os.makedirs(posixpath.dirname(target), exist_ok=True)
    with archive.open(member) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    executable = (member.external_attr >> 16) & stat.S_IXUSR
    os.chmod(target, 0o755 if executable else 0o644)


def _fix_interpreter(path: str, python: str) -> None:
    with open(path, "rb") as handle:
        content = handle.read()
    if content.startswith(b"#!python"):
        _, _, rest = content.partition(b"\n")
        with open(path, "wb") as handle:
            handle.write(b"#!" + python.encode() + b"\n" + rest)
    os.chmod(path, 0o755)  # noqa: S103 - a program


def console_scripts(archive: zipfile.ZipFile) -> Dict[str, str]:
    """Console scripts that the wheel asks for: name to ``module:function``."""
    for name in archive.namelist():
        if name.endswith(".dist-info/entry_points.txt"):
            parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
            parser.optionxform = str  # type: ignore[assignment,method-assign,unused-ignore]
            parser.read_string(archive.read(name).decode("utf-8"))
            return dict(parser["console_scripts"]) if parser.has_section("console_scripts") else {}
    return {}


def _write_script(path: str, target: str, python: str) -> None:
    module, _, call = target.partition("[")[0].strip().partition(":")
    text = _SCRIPT.format(python=python, module=module, name=call.split(".")[0], call=call)
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(text)
    os.chmod(path, 0o755)  # noqa: S103 - a program
