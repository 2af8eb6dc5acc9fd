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
from typing import Any, Dict, List, Optional

from . import wheels
from .converge import Change, Finding
from .host import Host
from .plans import RuntimePlan

#: where the controller puts the wheels, as one tar; removed once the environment is complete
ARCHIVE = "/var/cache/g35-wheelhouse.tar"
MARKER = ".g35-complete"
#: disk space an environment takes while it is built, bytes: the wheels twice, and what they unpack to
SPACE_NEEDED = 600 * 2**20


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
        "wheels_missing": wheels_missing(host, plan),
    }


def installed_version(host: Host, path: str, distribution: str) -> Optional[str]:
    """Version of the distribution installed in the environment at ``path``, from its own metadata, or None."""
    prefix = distribution.replace("-", "_") + "-"
    for python in host.list(path + "/lib"):
        for name in host.list("%s/lib/%s/site-packages" % (path, python)):
            if name.startswith(prefix) and name.endswith(".dist-info"):
                metadata = host.read("%s/lib/%s/site-packages/%s/METADATA" % (path, python, name)) or ""
                found = re.search(r"^Version: (\S+)$", metadata, re.MULTILINE)
                return found.group(1) if found else None
    return None


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


def changes(host: Host, plan: RuntimePlan, state: Dict[str, Any]) -> List[Change]:
    """Build the environment where it is not complete, and point ``current`` to it."""
    todo: List[Change] = []
    path = path_of(plan)
    if not state["complete"]:
        before = "incomplete" if host.exists(path) else "absent"
        todo.append(Change(path, before, "Mooncake %s" % plan.version, lambda: install(host, plan)))
    if state["current"] != name_of(plan):
        link = current_of(plan)
        before = state["current"] or "absent"
        todo.append(Change(link, before, name_of(plan), lambda: _point(host, link, name_of(plan))))
    return todo


def findings(plan: RuntimePlan, state: Dict[str, Any]) -> List[Finding]:
    """Judgement of the environment."""
    path = path_of(plan)
    remedy = "run the deploy again"
    if not state["complete"]:
        return [Finding("cache.environment", path, "incomplete or absent", "complete", remedy)]
    found: List[Finding] = []
    if state["version"] != plan.version:
        observed = state["version"] or "not installed"
        found.append(Finding("cache.version", path, observed, plan.version, "remove %s and deploy again" % path))
    if state["current"] != name_of(plan):
        found.append(Finding("cache.environment", current_of(plan), str(state["current"]), name_of(plan), remedy))
    return found


def install(host: Host, plan: RuntimePlan) -> None:
    """Build the environment from the archive. Raises OSError or CommandFailed; leaves no marker then."""
    path = path_of(plan)
    scratch = path + ".wheels"
    shutil.rmtree(str(host.path(path)), ignore_errors=True)
    shutil.rmtree(str(host.path(scratch)), ignore_errors=True)
    host.path(scratch).mkdir(parents=True)
    host.path(scratch).chmod(0o700)
    try:
        files = _unpack(host, plan, scratch)
        python = interpreter(host, plan)
        if python is None:
            raise OSError("no Python on this host fits the wheels")
        # Neither pip nor ensurepip is needed on the host, see wheels.py.
        host.must([python, "-m", "venv", "--without-pip", path], timeout=300)
        library = "%s/lib/%s/site-packages" % (path, os.path.basename(python))
        for wheel in files:
            wheels.install(wheel, str(host.path(library)), str(host.path(path + "/bin")), path + "/bin/python")
        host.must(["chmod", "-R", "u+rwX,go+rX,go-w", path], timeout=120)
        _prove(host, plan, path)
    finally:
        shutil.rmtree(str(host.path(scratch)), ignore_errors=True)
    digests = {wheel.name: wheel.sha256 for wheel in plan.wheels}
    host.write_file("%s/%s" % (path, MARKER), json.dumps(digests, indent=1, sort_keys=True) + "\n", 0o644)
    host.remove_file(ARCHIVE)


def _unpack(host: Host, plan: RuntimePlan, scratch: str) -> List[str]:
    """Take the planned wheels, and no other file, out of the archive and check each digest; returns their paths."""
    found: List[str] = []
    with tarfile.open(str(host.path(ARCHIVE))) as archive:
        for wheel in plan.wheels:
            content = archive.extractfile(wheel.name)
            if content is None:
                raise OSError("%s in the pushed archive is not a file" % wheel.name)
            target = str(host.path("%s/%s" % (scratch, os.path.basename(wheel.name))))
            measured = hashlib.sha256()
            with open(target, "wb") as out:
                block = content.read(1 << 20)
                while block:
                    measured.update(block)
                    out.write(block)
                    block = content.read(1 << 20)
            if measured.hexdigest() != wheel.sha256:
                raise OSError("%s: digest %s, expected %s" % (wheel.name, measured.hexdigest(), wheel.sha256))
            found.append(target)
    return found


def _prove(host: Host, plan: RuntimePlan, path: str) -> None:
    """The environment must say its version and its binaries must find their libraries."""
    said = host.must(
        [
            path + "/bin/python",
            "-I",
            "-c",
            "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))",
            plan.distribution,
        ]
    )
    if said.out.strip() != plan.version:
        raise OSError("the environment says version %s, expected %s" % (said.out.strip(), plan.version))
    shown = host.run([path + "/bin/mooncake_master", "--version"], timeout=120)
    if plan.version not in shown.out + shown.err:
        raise OSError("mooncake_master does not run: %s" % shown.explain())


def _point(host: Host, link: str, name: str) -> None:
    temporary = "%s.new" % link
    host.remove_file(temporary)
    os.symlink(name, str(host.path(temporary)))
    os.replace(str(host.path(temporary)), str(host.path(link)))


def removal(host: Host, plan: RuntimePlan) -> List[Change]:
    """Remove the environments of this prefix that this code made, the link, and a left-over archive."""
    todo: List[Change] = []
    for name in host.list(plan.prefix):
        path = "%s/%s" % (plan.prefix, name)
        made_here = host.exists("%s/%s" % (path, MARKER)) or path in (path_of(plan), path_of(plan) + ".wheels")
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
