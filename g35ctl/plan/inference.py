"""Inference on a host: its engines and its routers, whole argument lists included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ansible.module_utils.g35.plans import CachePlan
from ansible.module_utils.g35.plans_inference import EnginePlan, InferencePlan, RouterPlan

from g35ctl.plan import inference_lmcache, inference_sglang, inference_vllm
from g35ctl.plan.context import Context
from g35ctl.plan.inference_pool import Link, link_of
from g35ctl.plan.inference_program import program, runtimes
from g35ctl.plan.inference_router import Served, plan_routers, served
from g35ctl.plan.inference_units import compact, sharing
from g35ctl.site.engines import LMCACHE_VERSION, Engine, engines_of
from g35ctl.site.inference_model import Inference, Router
from g35ctl.site.model import SiteHost

#: where the files of engines lie on a host
DIRECTORY = "/etc/g35ctl/inference"
#: where the hub's token appears inside a container
TOKEN_IN_CONTAINER = "/run/secrets/hub-token"


@dataclass(frozen=True)
class Fleet:
    """Every engine of a site, made once for all its hosts: routers need those of the others."""

    context: Context

    @cached_property
    def engines(self) -> Mapping[str, tuple[EnginePlan, ...]]:
        """Engines by host."""
        hosts = [host for host in self.context.site.group("gpu_hosts") if host.name not in self.context.absent]
        return {host.name: engine_plans(self.context, host) for host in hosts}

    @cached_property
    def served(self) -> tuple[Served, ...]:
        """Engines by what they serve."""
        return served([item for members in self.engines.values() for item in members])


def plan_inference(fleet: Fleet, host: SiteHost, cache: CachePlan | None) -> InferencePlan | None:
    """Engines and routers of ``host``, or None where it runs neither. ``cache`` is what else runs there."""
    context = fleet.context
    own = fleet.engines.get(host.name, ())
    routers: tuple[RouterPlan, ...] = ()
    if "routers" in host.groups:
        routers = plan_routers(host.inference.router if host.inference is not None else Router(), fleet.served)
    if not own and not routers:
        return None
    settings = host.inference or Inference()
    uses_pool = any(item.sharing for item in own)
    return InferencePlan(
        site=context.site.identity.name,
        user=settings.user,
        master_admin=context.master.admin if uses_pool and context.master is not None else "",
        stores=tuple(item.unit for item in cache.store.instances)
        if cache is not None and cache.store is not None
        else (),
        runtimes=runtimes(context, host, settings.user),
        engines=own,
        routers=routers,
    )


def engine_plans(context: Context, host: SiteHost) -> tuple[EnginePlan, ...]:
    """The engines of one host. One without a model or an address is left out: the site's checks have named it."""
    made = []
    for engine in engines_of(host):
        link = link_of(context, engine)
        address = str(engine.settings.listen or link.address)
        if engine.model is not None and address:
            made.append(_engine(engine, address, link))
    return tuple(made)


def _engine(engine: Engine, address: str, link: Link) -> EnginePlan:
    model = engine.model
    assert model is not None
    path, content = _config(engine, link)
    if engine.engine == "vllm":
        module, arguments = inference_vllm.MODULE, inference_vllm.arguments(engine, address, link)
        variables = inference_vllm.variables(engine, address, link, path)
    else:
        module, arguments = inference_sglang.MODULE, inference_sglang.arguments(engine, address, link, path)
        variables = inference_sglang.variables(engine, address, link)
        if engine.pool.linker:
            path, content = "", ""
    return EnginePlan(
        name=engine.name,
        engine=engine.engine,
        role=engine.role,
        unit=f"g35-{engine.engine}-{engine.name}.service",
        device=engine.device,
        program=program(engine.install, engine.distribution, engine.version),
        module=module,
        address=address,
        port=engine.port,
        model=model.path,
        served_name=model.name,
        arguments=arguments,
        environment=_environment(engine, variables),
        devices=engine.devices,
        protocol=link.protocol,
        netdevs=link.netdevs,
        config_path=path,
        config=content,
        sharing=sharing(engine) if link.pool else "",
        bootstrap_port=engine.bootstrap_port if engine.role != "unified" else 0,
        host_memory=engine.host_bytes,
        start_seconds=engine.settings.start_seconds,
        hub_token_file=model.hub_token_file or "",
        packages=_packages(engine, link),
        writes=tuple(path for path in (engine.tiers.local_flash_path,) if path and engine.lmcache.enabled),
    )


def _config(engine: Engine, link: Link) -> tuple[str, str]:
    """Path and content of the file with an engine's settings of the pool; empty without one."""
    if not link.pool:
        return "", ""
    if engine.lmcache.enabled:
        return f"{DIRECTORY}/{engine.name}.lmcache.yaml", inference_lmcache.config(engine, link)
    if engine.engine == "vllm":
        return f"{DIRECTORY}/{engine.name}.mooncake.json", compact(inference_vllm.pool_config(engine, link)) + "\n"
    return f"{DIRECTORY}/{engine.name}.hicache.json", compact(inference_sglang.pool_config(engine, link)) + "\n"


def _environment(engine: Engine, own: dict[str, str]) -> tuple[str, ...]:
    model = engine.model
    assert model is not None
    found = {"DO_NOT_TRACK": "1", **own}
    if model.path.startswith("/"):
        found |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    elif model.hub_token_file:
        # A credential of the unit: the token itself is in no argument, variable or file of ours.
        unit = f"g35-{engine.engine}-{engine.name}.service"
        inside = f"/run/credentials/{unit}/hub-token"
        found["HF_TOKEN_PATH"] = TOKEN_IN_CONTAINER if engine.install.mode == "container" else inside
    if engine.devices and engine.device != "cpu":
        name = "CUDA_VISIBLE_DEVICES" if engine.device == "cuda" else "HIP_VISIBLE_DEVICES"
        found[name] = ",".join(str(index) for index in engine.devices)
    found |= dict(item.split("=", 1) for item in engine.environment)
    return tuple(f"{name}={value}" for name, value in sorted(found.items()))


def _packages(engine: Engine, link: Link) -> tuple[str, ...]:
    """Distributions that must be in its environment besides the engine itself."""
    found = []
    if link.pool or engine.role != "unified":
        # One release in the whole site: checksums and formats differ between them.
        found.append(f"mooncake-transfer-engine=={engine.host.mooncake.version}")
    if link.pool and engine.lmcache.enabled:
        found.append(f"lmcache=={LMCACHE_VERSION}")
    return tuple(found)
