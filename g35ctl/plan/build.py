"""From the Site to the Plan: the whole computation in one place, the same input always giving the same Plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ansible.module_utils.g35.plans import Wheel

from g35ctl.plan.box import plan_box
from g35ctl.plan.cache import plan_cache
from g35ctl.plan.connect import plan_connect, queues_of
from g35ctl.plan.context import Context, Paths, WheelSet
from g35ctl.plan.custody import Custody, allot
from g35ctl.plan.digest import plan_digest
from g35ctl.plan.disruptive import disruptive_steps
from g35ctl.plan.fabric import plan_fabric
from g35ctl.plan.files import with_files
from g35ctl.plan.inference import Fleet, plan_inference
from g35ctl.plan.inference_tiers import tiers
from g35ctl.plan.model import STAGES, HostMemory, HostPlan, Plan, Summary
from g35ctl.plan.ownership import Assignment, Candidate, Claimable, assign
from g35ctl.plan.probe import Tier, plan_probe
from g35ctl.plan.storage import plan_storage
from g35ctl.plan.stripes import form
from g35ctl.plan.switch.render import plan_switches
from g35ctl.plan.target import plan_target
from g35ctl.plan.warnings import plan_warnings
from g35ctl.site.keys import HostKeys
from g35ctl.site.model import Site, SiteHost


def build(
    site: Site,
    known_ownership: Mapping[str, str] | None = None,
    wheels: Mapping[WheelSet, tuple[Wheel, ...]] | None = None,
    paths: Paths | None = None,
    keys: Mapping[str, HostKeys] | None = None,
    custody: Custody | None = None,
) -> Plan:
    """The Plan of ``site``.

    ``known_ownership`` maps namespace UUIDs to the owner they have had so far and ``wheels`` what the controller's
    wheelhouses hold. ``paths`` are the controller's directories, ``keys`` the key files by host; ``custody`` is the
    whole record, where there is more of it than owners. Raises g35ctl.errors.G35Error when a value cannot be put into
    a file.
    """
    custody = custody or Custody(known_ownership or {})
    assignment = _assign(site, custody)
    context = Context(site, assignment.ownership, wheels or {}, paths or Paths(), keys or {}, custody)
    fleet = Fleet(context)
    hosts = _probes(context, tuple(_host(context, host, fleet) for host in site.hosts))
    return Plan(
        site=site.identity.name,
        hosts=hosts,
        ownership=assignment.ownership,
        stage_hosts=_stage_hosts(hosts),
        disruptive=disruptive_steps(hosts),
        warnings=assignment.warnings + plan_warnings(context, hosts),
        digest=plan_digest(hosts),
        summary=_summary(context, hosts),
        switches=plan_switches(site),
    )


def _assign(site: Site, custody: Custody) -> Assignment:
    if site.identity.profile == "nof-experimental":
        return Assignment(())
    names = {rail.name for rail in site.fabric.rails}
    claimables = []
    boxes = {host.name: host.box for host in site.group("ebof") if host.box is not None}
    for host in site.group("ebof"):
        # A further head serves what its box has; it adds portals and nothing to own.
        if host.box is None or host.box.head_of is not None or host.name in custody.removed:
            continue
        heads = [host.box] + [box for box in boxes.values() if box.head_of == host.name]
        rails = frozenset(portal.rail for box in heads for portal in box.portals) & names
        claimables += [
            Claimable(item.nqn, item.nsid, str(item.uuid), host.name, item.size, rails, item.owner or "")
            for item in host.box.namespaces
        ]
    candidates = [
        Candidate(
            host.name, frozenset(port.rail for port in host.ports) & names, frozenset(host.storage.owns),
            host.name not in custody.away,
        )
        for host in site.group("cache_owners")
    ]  # fmt: skip
    found = assign(claimables, candidates, custody.namespaces, custody.settled, custody.sets)
    hosts = {host.name: host for host in site.hosts}
    ownership, told = form(site.identity.name, found.ownership, hosts, custody)
    # A set has one store: its first namespace stands for it, whatever the order of the array.
    leaders: dict[str, str] = {}
    for item in ownership:
        key = item.stripe or item.uuid
        leaders[key] = min(leaders.get(key, item.uuid), item.uuid)
    leading = {item.uuid: item.owner for item in ownership if leaders[item.stripe or item.uuid] == item.uuid}
    slots = allot(leading, custody)
    placed = tuple(replace(item, slot=slots[leaders[item.stripe or item.uuid]]) for item in ownership)
    return Assignment(placed, found.warnings + told)


def _host(context: Context, host: SiteHost, fleet: Fleet) -> HostPlan:
    """The stage plans of a host, each with its files; the probe comes later, when all stores are known. A host or box
    out of service has none."""
    if host.name in context.absent:
        return HostPlan(host.name)
    cache = plan_cache(context, host)
    bare = HostPlan(
        host.name,
        target=plan_target(context, host),
        box=plan_box(context, host),
        fabric=plan_fabric(context, host),
        connect=plan_connect(context, host),
        storage=plan_storage(context, host),
        cache=cache,
        inference=plan_inference(fleet, host, cache),
    )
    return with_files(bare, context.site, host)


def _probes(context: Context, hosts: tuple[HostPlan, ...]) -> tuple[HostPlan, ...]:
    stores = {
        host.name: host.cache.store.instances
        for host in hosts
        if host.cache is not None and host.cache.store is not None
    }
    tier = Tier.of(stores)
    return tuple(
        replace(plan, probe=plan_probe(context, host, plan.cache, tier))
        for plan, host in zip(hosts, context.site.hosts, strict=True)
    )


def _stage_hosts(hosts: tuple[HostPlan, ...]) -> dict[str, tuple[str, ...]]:
    """Which hosts take part in each stage. A box's RoCE settings belong to its stage ``target``."""
    found = {
        "preflight": [host.name for host in hosts if host.stages()],
        "target": [host.name for host in hosts if host.target is not None or host.box is not None],
        "fabric": [host.name for host in hosts if host.fabric is not None and host.target is None],
        "connect": [host.name for host in hosts if host.connect is not None],
        "storage": [host.name for host in hosts if host.storage is not None],
        "cache": [host.name for host in hosts if host.cache is not None],
        "inference": [host.name for host in hosts if host.inference is not None],
        "validate": [host.name for host in hosts if host.probe is not None],
    }
    return {stage: tuple(found[stage]) for stage in STAGES}


def _summary(context: Context, hosts: tuple[HostPlan, ...]) -> Summary:
    stores = {host.name: host.cache.store for host in hosts if host.cache is not None and host.cache.store is not None}
    boxes = [host.box for host in context.boxes.values() if host.box is not None]
    return Summary(
        boxes=len(boxes),
        owners=len(context.owned),
        namespaces=len(context.ownership),
        paths=sum(len(host.connect.paths) for host in hosts if host.connect is not None),
        queues=tuple(queues_of(host.name, host.connect) for host in hosts if host.connect is not None),
        raw=sum(item.size for item in context.ownership),
        capacity=sum(item.capacity for store in stores.values() for item in store.instances),
        rated_gbps=sum(box.rated_gbps or 0.0 for box in boxes),
        unrated_boxes=sum(box.rated_gbps is None for box in boxes),
        memory=tuple(
            HostMemory(
                name,
                len(store.instances),
                sum(item.segment_size for item in store.instances),
                sum(item.local_buffer_size for item in store.instances),
            )
            for name, store in stores.items()
        ),
        tiers=tiers(context, hosts),
    )
