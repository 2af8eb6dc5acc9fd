"""Who may connect and as whom: exports, their fences, host identities, and controllers that do not serve."""

from __future__ import annotations

from collections.abc import Iterator

from g35ctl.observe.model import Export
from g35ctl.validate.doctor.model import ERROR, WARNING, Case, Diagnosis, Note, listed
from g35ctl.validate.doctor.reach import Leg, legs


def identities(case: Case) -> Iterator[Diagnosis]:
    """Two hosts with one host NQN: a target cannot tell them apart, and their fences are open to each other."""
    owners: dict[str, list[str]] = {}
    for host in case.reached():
        found = case.now.details.identities.get(host.name)
        if found is not None and found.host_nqn:
            owners.setdefault(found.host_nqn.lower(), []).append(host.name)
    planned = {host.name: host.connect.host_nqn for host in case.plan.hosts if host.connect is not None}
    for nqn, hosts in owners.items():
        if len(hosts) < 2:
            continue
        wrong = [name for name in hosts if planned.get(name, "").lower() != nqn]
        told = tuple(f"{name}: /etc/nvme/hostnqn is {nqn}" for name in hosts)
        told += tuple(f"{name}: planned is {planned[name]}" for name in wrong if name in planned)
        who = wrong or hosts
        limit = ",".join(who)
        yield Diagnosis(
            "identity.shared", ERROR, f"{listed(hosts)} have one host NQN", told,
            f"give {listed(who)} its own: g35ctl deploy --only connect --limit {limit} (what is connected with the"
            f" shared one goes first: ansible-playbook playbooks/connect.yml -e g35_action=drain --limit {limit})",
            tuple(hosts), tuple(f"identity/{name}" for name in hosts),
            tuple(pattern for name in who for pattern in (f"finding/{name}/connect.identity/*", f"path/{name}/*",
                                                          f"finding/{name}/connect.file/*hostnqn")),
        )  # fmt: skip


def exports(case: Case) -> Iterator[Diagnosis]:
    """Namespaces that are not exported as planned, and subsystems that let others in than their owner."""
    names = {host.connect.host_nqn: host.name for host in case.plan.hosts if host.connect is not None}
    for host in case.reached():
        if host.target is None or host.name not in case.now.readings.exports:
            continue
        found = {(item.nqn, item.nsid): item for item in case.now.readings.exports[host.name]}
        portals = {f"{portal.address}:{portal.port}" for portal in host.target.portals}
        closed: list[str] = []
        evidence: list[str] = []
        for namespace in host.target.namespaces:
            export = found.get((namespace.nqn, namespace.nsid))
            why = _missing(export, portals)
            if why:
                closed.append(namespace.nqn)
                evidence.append(f"{host.name}: {namespace.nqn}: {why}")
        if closed:
            yield Diagnosis(
                "export.missing", ERROR, f"{host.name} does not export {listed(closed, 3)} as planned",
                tuple(evidence[:8]), f"g35ctl deploy --only target --limit {host.name}", (host.name,),
                tuple(f"export/{host.name}/{nqn}" for nqn in closed),
                (*(f"path/*/*/{nqn}" for nqn in closed), *(f"finding/*/connect.namespace/{nqn}" for nqn in closed),
                 *(f"finding/{host.name}/target.*/*{nqn}*" for nqn in closed)),
            )  # fmt: skip
        for namespace in host.target.namespaces:
            export = found.get((namespace.nqn, namespace.nsid))
            if export is not None:
                yield from _fence(host.name, export, namespace.allowed_hosts, names)


def _missing(export: Export | None, portals: set[str]) -> str:
    if export is None:
        return "not there"
    if not export.enabled:
        return "its namespace is disabled"
    absent = sorted(portals - set(export.portals))
    return f"not on {listed(absent)}" if absent else ""


def _fence(box: str, export: Export, planned: tuple[str, ...], names: dict[str, str]) -> Iterator[Diagnosis]:
    if planned == ("*",):
        return  # a raw pool keeps nobody out
    strangers = sorted(set(export.allowed_hosts) - set(planned))
    missing = sorted(set(planned) - set(export.allowed_hosts))
    signs = (f"finding/{box}/target.*/*{export.nqn}*", f"finding/{box}/target.host*")
    if export.any_host or strangers:
        who = "any host" if export.any_host else listed(names.get(nqn, nqn) for nqn in strangers)
        yield Diagnosis(
            "fence.open", ERROR, f"{box} lets {who} connect to {export.nqn}",
            (f"{box}: allowed: {'any host' if export.any_host else listed(export.allowed_hosts)};"
             f" planned: {listed(planned)}",),
            f"g35ctl deploy --only target --limit {box}; until then make sure that nobody but its owner mounts it",
            (box,), (f"fence/{box}/{export.nqn}",), signs,
        )  # fmt: skip
    if missing and not export.any_host:
        hosts = [names.get(nqn, nqn) for nqn in missing]
        yield Diagnosis(
            "fence.closed", ERROR, f"{box} does not let {listed(hosts)} connect to {export.nqn}",
            (f"{box}: allowed: {listed(export.allowed_hosts)}; planned: {listed(planned)}",),
            f"g35ctl deploy --only target --limit {box}; then: g35ctl deploy --only connect --limit {','.join(hosts)}",
            (box, *hosts), (f"fence/{box}/{export.nqn}/closed",),
            (*signs, *(f"path/{name}/*/{export.nqn}" for name in hosts)),
        )  # fmt: skip


def controllers(case: Case) -> Iterator[Diagnosis]:
    """Paths that do not serve although their portal answers."""
    for leg in legs(case):
        down = [path for path in leg.paths if path not in leg.live]
        if not down or leg.silent:
            continue
        states = [f"{item.name} {item.condition}" for item in leg.controllers if not item.usable]
        why = _reasons(case, leg)
        reconnecting = any(item.state in ("connecting", "reconnecting", "resetting") for item in leg.controllers)
        cause, verb = ("path.reconnecting", "keeps reconnecting") if reconnecting else ("path.missing", "has no path")
        answer = "the portal answers ping" if leg.way is not None and leg.way.answers else "ping was not possible"
        yield Diagnosis(
            cause, ERROR, f"{leg.host} {verb} to {leg.address} on rail {leg.rail}"
            f" ({len(down)} of {len(leg.paths)} subsystems)",
            (f"{leg.host}: {listed(states) if states else 'no controller'}; {answer}",
             *(f"{note.host}: {note.subject}: {note.observed}" for note in why[:3])),
            why[0].remedy if why else
            f"g35ctl deploy --only connect --limit {leg.host}; if it stays: on {leg.host}: journalctl -k | grep nvme",
            (leg.host,), tuple(sign for sign, path in zip(leg.signs, leg.paths, strict=True) if path in down),
        )  # fmt: skip


def _reasons(case: Case, leg: Leg) -> tuple[Note, ...]:
    notes = case.notes("connect.path", leg.host)
    return tuple(note for note in notes if leg.address in note.subject or f"rail {leg.rail}" in note.subject)


def queues(case: Case) -> Iterator[Diagnosis]:
    """Queues that the target made shorter than asked for, once for each length."""
    shorter: dict[tuple[int, int], list[str]] = {}
    for host in case.reached():
        if host.connect is None:
            continue
        for queue in case.now.details.queues.get(host.name, ()):
            if queue.entries < host.connect.queue_size:
                shorter.setdefault((queue.entries, host.connect.queue_size), []).append(
                    f"{host.name} {queue.controller}"
                )
    for (have, want), where in shorter.items():
        hosts = tuple(dict.fromkeys(item.partition(" ")[0] for item in where))
        yield Diagnosis(
            "queue.short", WARNING, f"queues have {have} entries instead of {want} on {len(where)} controllers",
            (f"{listed(where)}: sqsize {have - 1} (zero based)",),
            f"the target allows no more (nvmet: param_max_queue_size; a box: its settings): raise it there, or set"
            f" g35_nvme.queue_size: {have} so that requests are not expected to be in flight that cannot be",
            hosts, tuple(f"queue/{item}" for item in where),
        )  # fmt: skip
