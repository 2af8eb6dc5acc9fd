"""A plan for people, in sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from g35ctl.plan.identity import endpoint
from g35ctl.plan.model import HostPlan, Plan
from g35ctl.plan.switch.model import SwitchPlan
from g35ctl.report.sections import Section, listed
from g35ctl.report.workload_text import workload_sections
from g35ctl.site.sizes import format_size


def sections(plan: Plan, pending: Sequence[tuple[str, str]] = ()) -> tuple[Section, ...]:
    """Everything the plan says, from the whole to the details. ``pending`` are the (host, stage) pairs to apply."""
    from g35ctl.report.inference_text import engine_rows, router_rows, tier_rows

    found = [
        Section("Plan", (), tuple((line,) for line in _headline(plan, pending))),
        Section(
            "Ownership", ("box", "subsystem", "namespace", "size", "owner", "since"),
            tuple((o.box, o.nqn, o.uuid, format_size(o.size), o.owner, o.since) for o in plan.ownership),
            frozenset({"size"}),
        ),
        Section(
            "Host identities", ("host", "host NQN"),
            tuple((host.name, host.connect.host_nqn) for host in plan.hosts if host.connect is not None),
        ),
        Section(
            "Paths", ("host", "rail", "netdev", "from", "to", "transport", "controllers"),
            tuple(row for host in plan.hosts for row in _paths(host)), frozenset({"controllers"}),
        ),
        Section(
            "Stores", ("owner", "namespace or set", "address", "rpc", "http", "segment", "buffer", "capacity"),
            tuple(row for host in plan.hosts for row in _stores(host)),
            frozenset({"rpc", "http", "segment", "buffer", "capacity"}),
        ),
        Section(
            "Striped sets", ("owner", "set", "namespace", "chunk", "mounted at"),
            tuple(row for host in plan.hosts for row in _sets(host)), frozenset({"chunk"}),
        ),
        Section(
            "Memory", ("host", "stores", "segments", "buffers", "total"),
            tuple(
                (m.host, str(m.stores), format_size(m.segments), format_size(m.buffers), format_size(m.total))
                for m in plan.summary.memory
            ),
            frozenset({"stores", "segments", "buffers", "total"}),
        ),
        Section(
            "Queues", ("host", "paths", "I/O queues per path", "queue pairs", "memory regions"),
            tuple(
                (q.host, str(q.paths), str(q.io_queues), str(q.queue_pairs), str(q.memory_regions))
                for q in plan.summary.queues
            ),
            frozenset({"paths", "I/O queues per path", "queue pairs", "memory regions"}),
        ),
        Section(
            "Stages", ("stage", "hosts", "names"),
            tuple((stage, str(len(hosts)), listed(hosts)) for stage, hosts in plan.stage_hosts.items()),
            frozenset({"hosts"}),
        ),
        Section(
            "Switches (rendered only: g35ctl render DIR)",
            ("switch", "vendor", "model", "mtu", "ports", "ECN marking, bytes"),
            tuple(_switch(item) for item in plan.switches), frozenset({"mtu", "ports"}),
        ),
        Section(
            "Engines", ("host", "engine", "program", "role", "address", "devices", "model", "keys", "mode"),
            engine_rows(plan),
        ),
        Section(
            "Routers", ("host", "router", "program", "address", "model", "workers", "balance from"), router_rows(plan),
            frozenset({"workers", "balance from"}),
        ),
        Section(
            "Tiers (predicted from what the site states)",
            ("host", "tier", "of", "medium", "size", "tokens", "fits", "holds", "note"), tier_rows(plan),
            frozenset({"size", "tokens"}),
        ),
        *workload_sections(plan.workload),
        Section("Disruptive steps (need --allow-disruptive where they hit something live)", (), _disruptive(plan)),
        Section("Warnings", (), tuple((warning,) for warning in plan.warnings)),
    ]  # fmt: skip
    return tuple(section for section in found if section.rows)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _headline(plan: Plan, pending: Sequence[tuple[str, str]]) -> Iterator[str]:
    summary = plan.summary
    yield f"site {plan.site}, plan {plan.digest[:12]}"
    yield (
        f"{_count(summary.boxes, 'box', 'boxes')}, {_count(summary.owners, 'owner')},"
        f" {_count(summary.namespaces, 'namespace')}, {_count(summary.paths, 'NVMe path')}"
    )
    yield f"flash: {format_size(summary.raw)}, of which {format_size(summary.capacity)} hold values"
    if summary.rated_gbps:
        unrated = f" ({_count(summary.unrated_boxes, 'box', 'boxes')} not rated)" if summary.unrated_boxes else ""
        yield f"bandwidth: the boxes are rated {summary.rated_gbps:g} GB/s together{unrated}"
    yield f"memory for stores: {format_size(sum(item.total for item in summary.memory))} on all owners together"
    if pending:
        hosts = {host for host, _ in pending}
        yield f"to apply: {_count(len(pending), 'stage')} on {_count(len(hosts), 'host')}"
    else:
        yield "to apply: nothing, the ledger knows every stage to hold"


def _paths(host: HostPlan) -> Iterator[tuple[str, ...]]:
    if host.connect is None:
        return
    counts: dict[tuple[str, str, str, str, str], int] = {}
    for path in host.connect.paths:
        key = (path.rail, path.netdev, path.source_address, endpoint(path.address, path.port), path.transport)
        counts[key] = counts.get(key, 0) + 1
    for key, count in counts.items():
        yield (host.name, *key, str(count))


def _stores(host: HostPlan) -> Iterator[tuple[str, ...]]:
    if host.cache is None or host.cache.store is None:
        return
    for item in host.cache.store.instances:
        yield (
            host.name, item.namespace_uuid, item.address, str(item.rpc_port), str(item.http_port),
            format_size(item.segment_size), format_size(item.local_buffer_size), format_size(item.capacity),
        )  # fmt: skip


def _sets(host: HostPlan) -> Iterator[tuple[str, ...]]:
    for item in host.storage.sets if host.storage is not None else ():
        for uuid in item.members:
            yield (host.name, item.uuid, uuid, format_size(item.chunk_size), item.mount_point)


def _switch(switch: SwitchPlan) -> tuple[str, ...]:
    marking = dict.fromkeys(f"{port.speed} {port.ecn_min}-{port.ecn_max}" for port in switch.ports)
    return (switch.name, switch.vendor, switch.model, str(switch.mtu), str(len(switch.ports)), ", ".join(marking))


def _disruptive(plan: Plan) -> tuple[tuple[str, ...], ...]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for step in plan.disruptive:
        groups.setdefault((step.stage, step.what, step.interrupts), []).append(step.host)
    return tuple(
        (f"{stage} on {listed(hosts)}: {what}; interrupts {interrupts}",)
        for (stage, what, interrupts), hosts in groups.items()
    )
