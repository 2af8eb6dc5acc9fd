"""Programs of engines and routers on a host: Python environments that are built from pushed wheels or are there
already, and container images.

An environment is built like Mooncake's (runtime.py): at ``<prefix>/<version>-<digest of the wheels>``, complete once
its marker is written, with ``current`` pointing to it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tarfile
import zipfile
from typing import IO, Any, Dict, Iterator, List, Optional, Tuple

from . import runtime, wheels
from .converge import Change, Finding
from .host import Host
from .managed import note_written
from .plans import RuntimePlan
from .plans_inference import ProgramPlan

#: where the controller puts a program's wheels, as one tar; removed once its environment is complete
ARCHIVE = "/var/cache/g35-inference-%s.tar"
#: what unpacked wheels take, as a multiple of the wheels
UNPACKED = 3
_TAGS = re.compile(r"-cp3(\d+)-(cp3\d+|abi3)-[^-]+\.whl$")


def archive_of(plan: RuntimePlan) -> str:
    """Where the controller puts the wheels of one environment."""
    return ARCHIVE % plan.distribution


def missing(host: Host, plan: RuntimePlan) -> bool:
    """Whether the controller still has to push the wheels: the environment is not complete, nor is the archive here."""
    if host.exists("%s/%s" % (runtime.path_of(plan), runtime.MARKER)):
        return False
    try:
        with tarfile.open(str(host.path(archive_of(plan)))) as archive:
            there = set(archive.getnames())
    except (OSError, tarfile.TarError):
        return True
    return any(wheel.name not in there for wheel in plan.wheels)


def read(host: Host, plan: RuntimePlan) -> Dict[str, Any]:
    """The environment as it is: complete or not, and what ``current`` points to."""
    link = host.path(runtime.current_of(plan))
    return {
        "path": runtime.path_of(plan),
        "complete": host.exists("%s/%s" % (runtime.path_of(plan), runtime.MARKER)),
        "current": os.readlink(str(link)) if link.is_symlink() else None,
    }


def distributions(host: Host, environment: str) -> Dict[str, str]:
    """Name (with dashes, lower case) to version of what is installed in an environment, from directory names alone."""
    found: Dict[str, str] = {}
    for library in ("lib", "lib64"):
        for python in host.list("%s/%s" % (environment, library)):
            for name in host.list("%s/%s/%s/site-packages" % (environment, library, python)):
                if name.endswith(".dist-info") and name.count("-") >= 1:
                    package, _, version = name[: -len(".dist-info")].rpartition("-")
                    found.setdefault(re.sub(r"[-_.]+", "-", package).lower(), version)
    return found


def environment_of(program: ProgramPlan) -> str:
    """Directory of the environment that a program runs in; empty for one that has none of its own."""
    suffix = "/bin/python"
    return program.python[: -len(suffix)] if program.python.endswith(suffix) else ""


def package_findings(
    host: Host, program: ProgramPlan, wanted: Tuple[str, ...], who: str, check: str = "inference.package"
) -> List[Finding]:
    """What an environment lacks of what its program needs. ``NAME==VERSION`` also accepts a variant ``NAME-*``."""
    environment = environment_of(program)
    if program.mode != "pip" or not environment:
        return []
    have = distributions(host, environment)
    remedy = "add the wheel to the environment's wheelhouse: g35ctl bundle create --with NAME==VERSION"
    if program.environment:
        remedy = "install it into %s; g35ctl does not change an environment that it did not make" % environment
    found: List[Finding] = []
    for item in ("%s==%s" % (program.distribution, program.version),) + wanted:
        name, _, version = item.partition("==")
        versions = sorted({have[key] for key in have if key == name or key.startswith(name + "-")})
        if not versions:
            found.append(Finding(check, "%s in %s" % (name, environment), "not installed (%s)" % who, item, remedy))
        elif version and any(seen.partition("+")[0] != version for seen in versions):
            found.append(Finding(check, "%s in %s" % (name, environment), ", ".join(versions), version, remedy))
    return found


def interpreter(host: Host, plan: RuntimePlan) -> Optional[str]:
    """The newest Python of this host that every planned wheel was built for, or None."""
    exact, least = set(), 9
    for wheel in plan.wheels:
        tag = _TAGS.search(wheel.name)
        if tag and tag.group(2) == "abi3":
            least = max(least, int(tag.group(1)))
        elif tag:
            exact.add(int(tag.group(1)))
    for minor in sorted(exact, reverse=True) if len(exact) == 1 else range(14, least - 1, -1) if not exact else ():
        for place in ("/usr/bin", "/usr/local/bin"):
            if host.exists("%s/python3.%d" % (place, minor)):
                return "%s/python3.%d" % (place, minor)
    return None


def preflight(host: Host, plan: RuntimePlan, sizes: int = 0) -> List[Finding]:
    """What would stop an environment from being built."""
    if not plan.wheels:
        observed = "no wheels in %s on the controller" % plan.wheel_directory
        remedy = "g35ctl bundle create --distribution %s --release %s --output %s" % (
            plan.distribution, plan.version, plan.wheel_directory,
        )  # fmt: skip
        expected = "%s %s and what it needs" % (plan.distribution, plan.version)
        return [Finding("inference.wheels", plan.distribution, observed, expected, remedy)]
    if host.exists("%s/%s" % (runtime.path_of(plan), runtime.MARKER)) or interpreter(host, plan):
        return []
    built = sorted({tag for wheel in plan.wheels for tag in re.findall(r"-cp3(\d+)-cp3\d+-", wheel.name)}, key=int)
    expected = "Python " + (" and ".join("3.%s" % minor for minor in built) or "3.9 or later")
    remedy = "install it, or create a wheelhouse for this host's Python: g35ctl bundle create --python 3.N"
    return [Finding("inference.python", plan.distribution, "not installed", expected, remedy)]


def changes(host: Host, plan: RuntimePlan, state: Dict[str, Any]) -> List[Change]:
    """Build the environment where it is not complete, and point ``current`` to it."""
    todo: List[Change] = []
    path, link, name = runtime.path_of(plan), runtime.current_of(plan), runtime.name_of(plan)
    if not state["complete"]:
        before = "incomplete" if host.exists(path) else "absent"
        after = "%s %s" % (plan.distribution, plan.version)
        todo.append(Change(path, before, after, lambda: install(host, plan)))
    if state["current"] != name:
        todo.append(Change(link, state["current"] or "absent", name, lambda: _point(host, link, name)))
    return todo


def findings(plan: RuntimePlan, state: Dict[str, Any]) -> List[Finding]:
    """Judgement of an environment."""
    remedy = "run the deploy again"
    if not state["complete"]:
        return [Finding("inference.environment", state["path"], "incomplete or absent", "complete", remedy)]
    if state["current"] != runtime.name_of(plan):
        link = runtime.current_of(plan)
        return [Finding("inference.environment", link, str(state["current"]), runtime.name_of(plan), remedy)]
    return []


def install(host: Host, plan: RuntimePlan) -> None:
    """Build an environment from its archive. Raises OSError or CommandFailed; leaves no marker then."""
    path = runtime.path_of(plan)
    python = interpreter(host, plan)
    if python is None:
        raise OSError("no Python on this host fits the wheels of %s" % plan.distribution)
    shutil.rmtree(str(host.path(path)), ignore_errors=True)
    host.must([python, "-m", "venv", "--without-pip", path], timeout=300)
    library = "%s/lib/%s/site-packages" % (path, os.path.basename(python))
    with tarfile.open(str(host.path(archive_of(plan)))) as archive:
        for wheel in plan.wheels:
            _unpack(host, runtime.checked_wheel(archive, wheel), wheel.name, path, library)
    host.must(["chmod", "-R", "u+rwX,go+rX,go-w", path], timeout=600)
    said = distributions(host, path).get(plan.distribution)
    if said is None or said.partition("+")[0] != plan.version:
        raise OSError("the environment says %s %s, expected %s" % (plan.distribution, said, plan.version))
    host.must([path + "/bin/python", "-I", "-c", "import ssl, sqlite3, ctypes"], timeout=120)
    digests = {wheel.name: wheel.sha256 for wheel in plan.wheels}
    marker = json.dumps(digests, indent=1, sort_keys=True) + "\n"
    host.write_file("%s/%s" % (path, runtime.MARKER), marker, 0o644)
    host.remove_file(archive_of(plan))


def _unpack(host: Host, source: IO[bytes], name: str, path: str, library: str) -> None:
    """Place what a wheel holds: packages, and beside them scripts, data and headers as the wheel format has them."""
    places = {
        "purelib": library, "platlib": library, "scripts": path + "/bin", "data": path,
        "headers": path + "/include/" + name.partition("-")[0],
    }  # fmt: skip
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            if member.is_dir():
                continue
            base, rest = _place(name, member.filename, places, library)
            target = str(host.path("%s/%s" % (base, rest)))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.open(member) as packed, open(target, "wb") as out:
                shutil.copyfileobj(packed, out, 1 << 20)
            runs = base == places["scripts"] or (member.external_attr >> 16) & stat.S_IXUSR
            os.chmod(target, 0o755 if runs else 0o644)
        for script, target in wheels.console_scripts(archive).items():
            wheels._write_script(str(host.path("%s/bin/%s" % (path, script))), target, path + "/bin/python")


def _place(wheel: str, name: str, places: Dict[str, str], library: str) -> Tuple[str, str]:
    """Where a member belongs. Never outside of the environment, whatever its name says."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "" in parts:
        raise wheels.WheelError("%s: unsafe path %r" % (wheel, name))
    if not parts[0].endswith(".data"):
        return library, name
    if parts[1] not in places or len(parts) < 3:
        raise wheels.WheelError("%s: has %s files, which this installer does not place" % (wheel, parts[1]))
    return places[parts[1]], "/".join(parts[2:])


def _point(host: Host, link: str, name: str) -> None:
    # Noted before the switch: an apply that is cut off before the restarts leaves services on what they had, and the
    # next one has to know.
    note_written(host, link, name)
    temporary = "%s.new" % link
    host.remove_file(temporary)
    host.path(link).parent.mkdir(parents=True, exist_ok=True)
    os.symlink(name, str(host.path(temporary)))
    os.replace(str(host.path(temporary)), str(host.path(link)))


def removal(host: Host, plan: RuntimePlan) -> List[Change]:
    """Remove the environments of this prefix that this code made, the link, and a left-over archive."""
    todo: List[Change] = []
    for path in _made(host, plan):
        todo.append(Change(path, "present", "absent", _tree_remover(host, path)))
    for path in (runtime.current_of(plan), archive_of(plan)):
        if host.exists(path):
            todo.append(Change(path, "present", "absent", _file_remover(host, path)))
    return todo


def _made(host: Host, plan: RuntimePlan) -> Iterator[str]:
    for name in host.list(plan.prefix):
        path = "%s/%s" % (plan.prefix, name)
        if name != "current" and (host.exists("%s/%s" % (path, runtime.MARKER)) or path == runtime.path_of(plan)):
            yield path


def _tree_remover(host: Host, path: str) -> Any:
    return lambda: shutil.rmtree(str(host.path(path)))


def _file_remover(host: Host, path: str) -> Any:
    return lambda: host.remove_file(path)


# -- images -------------------------------------------------------------------------------------------------------


def image_present(host: Host, image: str) -> bool:
    """Whether podman has an image."""
    return host.run(["podman", "image", "exists", image], timeout=60).ok


def image_change(host: Host, image: str) -> Change:
    """Fetch an image from its registry. Hosts that reach none get it loaded by hand (docs/inference.md)."""
    return Change("image %s" % image, "absent", "present", lambda: _pull(host, image))


def _pull(host: Host, image: str) -> None:
    host.must(["podman", "pull", "--quiet", image], timeout=3600)
