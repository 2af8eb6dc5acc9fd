"""Inference engines that answer and do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from g35ctl.validate.doctor.model import ERROR, Case, Diagnosis


def standing(case: Case) -> Iterator[Diagnosis]:
    """Engines that had requests waiting in both samples, ran none, and moved no token between: they call themselves
    healthy and do not recover (docs/inference.md, "When an engine stands still")."""
    if not case.seconds:
        return
    for host in case.reached():
        before = {item.name: item for item in case.first.details.engines.get(host.name, ())}
        for now in case.now.details.engines.get(host.name, ()):
            old = before.get(now.name)
            if old is None or now.tokens != old.tokens or now.running or old.running:
                continue
            if not now.waiting or not old.waiting:
                continue
            yield Diagnosis(
                "engine.standing", ERROR,
                f"engine {now.name} on {host.name} has {now.waiting} requests waiting and works on none",
                (f"{host.name}: {now.unit}: /metrics: 0 requests running, {old.waiting} and then {now.waiting} waiting,"
                 f" no token in {case.seconds:.0f} s",),
                f"on {host.name}: systemctl restart {now.unit} (its KV is in the pool). If it comes back, send engines"
                " fewer requests at once than contexts fit their G1 (g35ctl plan)",
                (host.name,), (f"engine/{host.name}/{now.name}",),
            )  # fmt: skip
