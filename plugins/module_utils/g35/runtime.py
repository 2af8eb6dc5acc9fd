"""Mooncake's own Python environment on a host, built from pushed wheels without any network.

An environment lives at ``<prefix>/<version>-<digest of the wheels>`` and never changes once it is complete: an upgrade
builds another one beside it and moves the link ``current``. A virtual environment cannot be moved after it was made, so
it is built in place and the marker that makes it count is written last.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
from typing import IO, Any, Dict, List, Optional

from . import wheels
from .converge import Change, Finding
from .host import Host
from .managed import note_written
from .plans import RuntimePlan, Wheel

#: where the controller puts the wheels, as one tar; removed once the environment is complete
ARCHIVE = "/var/cache/g35-wheelhouse.tar"
MARKER = ".g35-complete"
#: disk space an environment takes while it is built, bytes: the wheels, and what they unpack to
SPACE_NEEDED = 500 * 2**20


def name_of(plan: RuntimePlan) -> str:
    """Directory name of the planned environment."""
    digests = "".join(sorted(wheel.sha256 for wheel in plan.wheels))
    return "%s-%s" % (plan.version, hashlib.sha256(digests.encode()).hexdigest()[:12])


def path_of(plan: RuntimePlan) -> str:
    """Path of the planned environment."""
    return "%s/%s" % (plan.prefix, name_of(plan))


def current_of(plan: RuntimePlan) -> str:
    """The link that units use."""
    return "%s/current" % plan.prefix


def read(host: Host, plan: RuntimePlan) -> Dict[str, Any]:
    """The environment as it is: complete or not, what ``current`` points to, the version that is installed there."""
    path = path_of(plan)
    link = host.path(current_of(plan))
    return {
        "path": path,
        "complete": host.exists("%s/%s" % (path, MARKER)),
        "current": os.readlink(str(link)) if link.is_symlink() else None,
        "version": installed_version(host, path, plan.distribution),
        "variants": variants(host, path),
        "damaged": damaged(host, path, plan.distribution),
        "wheels_missing": wheels_missing(host, plan),
    }


def installed_version(host: Host, path: str, distribution: str) -> Optional[str]:
    """Version of the distribution installed in the environment at ``path``, from its own metadata, or None."""
    for installed in variants(host, path):
        name, _, version = installed.partition(" ")
        if name == distribution:
            return version or None
    return None


def variants(host: Host, path: str) -> List[str]:
    """Every Mooncake wheel installed at ``path``, as ``distribution version``. All bring the same package ``mooncake``:
    with two of them nobody knows whose files these are."""
    found = []
    for place in _distributions(host, path):
        metadata = host.read(place + "/METADATA") or ""
        version = re.search(r"^Version: (\S+)$", metadata, re.MULTILINE)
        name = os.path.basename(place).partition("-")[0].replace("_", "-")
        found.append("%s %s" % (name, version.group(1) if version else ""))
    return sorted(found)


def damaged(host: Host, path: str, distribution: str) -> List[str]:
    """Files of Mooncake whose size is not what the wheel's own record says, or that are gone."""
    found = []
    for place in _distributions(host, path):
        if not os.path.basename(place).startswith(distribution.replace("-", "_") + "-"):
            continue
        for line in (host.read(place + "/RECORD") or "").splitlines():
            name, _, rest = line.partition(",")
            size = rest.rpartition(",")[2]
            if name.startswith("mooncake/") and size.isdigit():
                target = host.path("%s/%s" % (os.path.dirname(place), name))
                if not target.exists() or target.stat().st_size != int(size):
                    found.append(name)
    return found


def _distributions(host: Host, path: str) -> List[str]:
    """Directories of metadata of Mooncake's wheels at ``path``."""
    return [
        "%s/lib/%s/site-packages/%s" % (path, python, name)
        for python in host.list(path + "/lib")
        for name in host.list("%s/lib/%s/site-packages" % (path, python))
        if name.startswith("mooncake_transfer_engine") and name.endswith(".dist-info")
    ]


def wheels_missing(host: Host, plan: RuntimePlan) -> List[str]:
    """Wheels the controller still has to push; empty when the environment is complete or the archive is here."""
    if host.exists("%s/%s" % (path_of(plan), MARKER)):
        return []
    there = set()
    try:
        with tarfile.open(str(host.path(ARCHIVE))) as archive:
            there = set(archive.getnames())
    except (OSError, tarfile.TarError):
        pass
    return [wheel.name for wheel in plan.wheels if wheel.name not in there]


def interpreter(host: Host, plan: RuntimePlan) -> Optional[str]:
    """The Python on this host that the planned wheels were built for, or None."""
    tags = set()
    for wheel in plan.wheels:
        if wheel.name.startswith(plan.distribution.replace("-", "_") + "-"):
            tags.update(re.findall(r"-cp3(\d+)-", wheel.name))
    for minor in sorted(tags, key=int, reverse=True):
        for place in ("/usr/bin", "/usr/local/bin"):
            if host.exists("%s/python3.%s" % (place, minor)):
                return "%s/python3.%s" % (place, minor)
    return None


def preflight(host: Host, plan: RuntimePlan) -> List[Finding]:
    """What would stop the environment from being built."""
    found: List[Finding] = []
    if not plan.wheels:
        observed = "no wheels in %s on the controller" % plan.wheel_directory
        expected = "%s %s and what it needs" % (plan.distribution, plan.version)
        remedy = "g35ctl bundle create --output %s" % plan.wheel_directory
        return [Finding("cache.wheels", plan.distribution, observed, expected, remedy)]
    if host.exists("%s/%s" % (path_of(plan), MARKER)):
        return found
    if interpreter(host, plan) is None:
        built = sorted({tag for wheel in plan.wheels for tag in re.findall(r"-cp3(\d+)-", wheel.name)})
        expected = "Python " + " or ".join("3.%s" % minor for minor in built)
        remedy = "install it, or create a wheelhouse for this host's Python: g35ctl bundle create --python 3.N"
        found.append(Finding("cache.python", "python3", "not installed", expected, remedy))
    place = plan.prefix
    while place != "/" and not host.exists(place):
        place = os.path.dirname(place)
    free = host_space(host, place)
    if free is not None and free < SPACE_NEEDED:
        found.append(
            Finding(
                "cache.space",
                plan.prefix,
                "%d MiB free" % (free >> 20),
                "at least %d MiB" % (SPACE_NEEDED >> 20),
                "free space there, or set g35_mooncake.prefix to a larger file system",
            )
        )
    return found


def host_space(host: Host, path: str) -> Optional[int]:
    """Bytes free for root on the file system of ``path``, or None."""
    try:
        status = os.statvfs(str(host.path(path)))
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def building(host: Host, plan: RuntimePlan, state: Dict[str, Any]) -> List[Change]:
    """Build the environment where it is not complete. Touches nothing that runs."""
    path = path_of(plan)
    if state["complete"]:
        return []
    before = "incomplete" if host.exists(path) else "absent"
    return [Change(path, before, "Mooncake %s" % plan.version, lambda: install(host, plan))]


def changes(host: Host, plan: RuntimePlan, state: Dict[str, Any]) -> List[Change]:
    """Build the environment where it is not complete, and point ``current`` to it."""
    todo = building(host, plan, state)
    if state["current"] != name_of(plan):
        link = current_of(plan)
        before = state["current"] or "absent"
        todo.append(Change(link, before, name_of(plan), lambda: _point(host, link, name_of(plan))))
    return todo


def build_findings(plan: RuntimePlan, state: Dict[str, Any]) -> List[Finding]:
    """Judgement of the environment itself, whether it is in use or not: complete, and the planned wheel alone."""
    path = path_of(plan)
    if not state["complete"]:
        return [Finding("cache.environment", path, "incomplete or absent", "complete", "run the deploy again")]
    remedy = "stop what changed it; rm -r %s; then g35ctl deploy --only cache" % path
    wanted = "%s %s" % (plan.distribution, plan.version)
    found: List[Finding] = []
    if state["variants"] != [wanted]:
        observed = ", ".join(state["variants"]) or "no Mooncake"
        found.append(Finding("cache.version", path, observed, "%s and no other" % wanted, remedy))
    if state["damaged"]:
        observed = "differs from its wheel: %s" % ", ".join(state["damaged"])
        found.append(Finding("cache.wheel", path, observed, "as the wheel brought it", remedy))
    return found


def findings(plan: RuntimePlan, state: Dict[str, Any]) -> List[Finding]:
    """Judgement of the environment and of the link that units use."""
    found = build_findings(plan, state)
    if state["complete"] and state["current"] != name_of(plan):
        remedy = "run the deploy again"
        found.append(Finding("cache.environment", current_of(plan), str(state["current"]), name_of(plan), remedy))
    return found


def install(host: Host, plan: RuntimePlan) -> None:
    """Build the environment from the archive. Raises OSError or CommandFailed; leaves no marker then.

    Wheels are unpacked straight out of the pushed archive, and no process is started but the one that proves the
    result: on a slow host, copies and starts of Python are most of what this takes.
    """
    path = path_of(plan)
    shutil.rmtree(str(host.path(path)), ignore_errors=True)
    python = interpreter(host, plan)
    if python is None:
        raise OSError("no Python on this host fits the wheels")
    with tarfile.open(str(host.path(ARCHIVE))) as archive:
        contents = [(wheel.name, checked_wheel(archive, wheel)) for wheel in plan.wheels]
        library = _virtual_environment(host, path, python)
        # Neither pip nor ensurepip is needed on the host, see wheels.py.
        for name, content in contents:
            scripts = str(host.path(path + "/bin"))
            wheels.install(name, str(host.path(library)), scripts, path + "/bin/python", content)
    host.must(["chmod", "-R", "u+rwX,go+rX,go-w", path], timeout=120)
    _prove(host, plan, path)
    digests = {wheel.name: wheel.sha256 for wheel in plan.wheels}
    host.write_file("%s/%s" % (path, MARKER), json.dumps(digests, indent=1, sort_keys=True) + "\n", 0o644)
    host.remove_file(ARCHIVE)


def _virtual_environment(host: Host, path: str, python: str) -> str:
    """Lay out a virtual environment of ``python`` as PEP 405 defines it; returns its directory of packages."""
    name = os.path.basename(python)
    library = "%s/lib/%s/site-packages" % (path, name)
    for directory in (library, path + "/bin"):
        host.path(directory).mkdir(parents=True)
    os.symlink("lib", str(host.path(path + "/lib64")))
    os.symlink(python, str(host.path("%s/bin/%s" % (path, name))))
    for link in ("python3", "python"):
        os.symlink(name, str(host.path("%s/bin/%s" % (path, link))))
    settings = "home = %s\ninclude-system-site-packages = false\n" % os.path.dirname(python)
    host.write_file(path + "/pyvenv.cfg", settings, 0o644)
    return library


def checked_wheel(archive: tarfile.TarFile, wheel: Wheel) -> IO[bytes]:
    """A planned wheel inside the archive, at its start, once its digest was found right. Raises OSError."""
    content = archive.extractfile(wheel.name)
    if content is None:
        raise OSError("%s in the pushed archive is not a file" % wheel.name)
    measured = hashlib.sha256()
    block = content.read(1 << 20)
    while block:
        measured.update(block)
        block = content.read(1 << 20)
    if measured.hexdigest() != wheel.sha256:
        raise OSError("%s: digest %s, expected %s" % (wheel.name, measured.hexdigest(), wheel.sha256))
    content.seek(0)
    return content


def _prove(host: Host, plan: RuntimePlan, path: str) -> None:
    """The environment's metadata must name the version, and its Python and its binaries must run."""
    said = installed_version(host, path, plan.distribution)
    if said != plan.version:
        raise OSError("the environment says version %s, expected %s" % (said, plan.version))
    shown = host.run([path + "/bin/mooncake_master", "--version"], timeout=120)
    if plan.version not in shown.out + shown.err:
        raise OSError("mooncake_master does not run: %s" % shown.explain())


def _point(host: Host, link: str, name: str) -> None:
    # Noted before the switch: an apply that is cut off before the restarts leaves services on what they had, and the
    # next one has to know.
    note_written(host, link, name)
    temporary = "%s.new" % link
    host.remove_file(temporary)
    os.symlink(name, str(host.path(temporary)))
    os.replace(str(host.path(temporary)), str(host.path(link)))


def removal(host: Host, plan: RuntimePlan) -> List[Change]:
    """Remove the environments of this prefix that this code made, the link, and a left-over archive."""
    todo: List[Change] = []
    for name in host.list(plan.prefix):
        path = "%s/%s" % (plan.prefix, name)
        made_here = host.exists("%s/%s" % (path, MARKER)) or path == path_of(plan)
        if name != "current" and made_here:
            todo.append(Change(path, "present", "absent", _tree_remover(host, path)))
    for path in (current_of(plan), ARCHIVE):
        if host.exists(path):
            todo.append(Change(path, "present", "absent", _file_remover(host, path)))
    return todo


def _tree_remover(host: Host, path: str) -> Any:
    return lambda: shutil.rmtree(str(host.path(path)))


def _file_remover(host: Host, path: str) -> Any:
    return lambda: host.remove_file(path)
