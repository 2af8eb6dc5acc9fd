"""Where the programs of engines and routers come from: environments of their own, images, or what is there already."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from ansible.module_utils.g35.plans import RuntimePlan
from ansible.module_utils.g35.plans_inference import ProgramPlan

from g35ctl.plan.context import Context, Paths, WheelSet
from g35ctl.site.engines import VERSIONS, engines_of
from g35ctl.site.inference_model import EngineInstall, Router
from g35ctl.site.model import Site, SiteHost


def program(install: EngineInstall, distribution: str, version: str) -> ProgramPlan:
    """How one program is run."""
    if install.mode == "container":
        python = "python3"
    elif install.environment is not None:
        python = f"{install.environment}/bin/python"
    elif install.mode == "files":
        python = "/usr/bin/python3"
    else:
        python = f"{prefix(install, distribution)}/current/bin/python"
    return ProgramPlan(install.mode, distribution, version, python, install.environment or "", install.image)


def prefix(install: EngineInstall, distribution: str) -> str:
    """Where environments of a distribution are built on a host."""
    return f"{install.prefix}/{distribution}"


def needs_wheels(install: EngineInstall) -> bool:
    """Whether an environment is built for it."""
    return install.mode == "pip" and install.environment is None


def wheel_set(paths: Paths, install: EngineInstall, distribution: str, version: str) -> WheelSet:
    """Which wheels a program needs, and where they lie on the controller."""
    if install.wheelhouse:
        where = posixpath.normpath(posixpath.join(paths.inventory, install.wheelhouse))
    else:
        where = posixpath.join(paths.wheelhouses, f"{distribution}-{version}")
    return WheelSet(where, distribution, version)


def programs_of(site: Site, host: SiteHost) -> tuple[tuple[EngineInstall, str, str], ...]:
    """Installation, distribution and version of everything that runs on a host, each once."""
    found = [(item.install, item.distribution, item.version) for item in engines_of(host)]
    if "routers" in host.groups:
        settings = host.inference.router if host.inference is not None else Router()
        for kind in router_kinds(site, settings.kind):
            name = settings.install.distribution or kind
            found.append((settings.install, name, settings.install.version or VERSIONS[kind]))
    return tuple(dict.fromkeys(found))


def router_kinds(site: Site, kind: str) -> tuple[str, ...]:
    """Kinds of routers that stand before the site's engines, each once."""
    own = {"vllm": "vllm-router", "sglang": "sglang-router"}
    used = dict.fromkeys(item.engine for host in site.group("gpu_hosts") for item in engines_of(host))
    return tuple(dict.fromkeys(own[engine] if kind == "auto" else kind for engine in used))


def wheel_sets(paths: Paths, site: Site, host: SiteHost) -> tuple[WheelSet, ...]:
    """Every set of wheels that the programs of a host need."""
    return tuple(
        wheel_set(paths, install, distribution, version)
        for install, distribution, version in programs_of(site, host)
        if needs_wheels(install)
    )


def runtimes(context: Context, host: SiteHost, user: str) -> tuple[RuntimePlan, ...]:
    """The environments to build on a host."""
    return tuple(_runtimes(context, programs_of(context.site, host), user))


def _runtimes(context: Context, programs: Iterable[tuple[EngineInstall, str, str]], user: str) -> Iterable[RuntimePlan]:
    for install, distribution, version in programs:
        if needs_wheels(install):
            wanted = wheel_set(context.paths, install, distribution, version)
            wheels = context.wheels.get(wanted, ())
            yield RuntimePlan(version, distribution, wheels, wanted.directory, prefix(install, distribution), user)
