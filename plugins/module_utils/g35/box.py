"""Boxes that nobody logs in to: one small interface to what they export, whatever speaks for them.

A driver can say what a box exports (``discover``), what is to be done about the difference to the plan (``changes``),
what does not hold (``findings``), and let one host in or out (``grant``, ``revoke``). Linux boxes with the kernel's
target are configured on the box itself (:mod:`.target`); for them :mod:`.box_nvmet` only discovers.
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import converge
from .converge import Change, Finding, Stage
from .host import Host
from .plans import BoxPlan, TargetNamespace
from .schema import SchemaError, dump, load

ANY_HOST = "any host"
_SHOWN = 6


class BoxError(OSError):
    """A box could not be asked, or did not do what it was asked to. ``remedy`` is what to do about it."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.remedy = remedy


class ByHand(BoxError):
    """The box offers no way to do this: ``instruction`` tells the operator exactly what to do instead."""

    def __init__(self, why: str, instruction: str) -> None:
        super().__init__("%s: do it by hand: %s" % (why, instruction), instruction)
        self.instruction = instruction


@dataclass(frozen=True)
class SeenPortal:
    """A listening address."""

    address: str
    port: int
    transport: str

    def __str__(self) -> str:
        shown = "[%s]" % self.address if ":" in self.address else self.address
        return "%s:%d" % (shown, self.port)


@dataclass(frozen=True)
class SeenNamespace:
    """A namespace as the box tells it; empty or 0 for what it does not tell. ``size`` in bytes."""

    nsid: int
    uuid: str = ""
    nguid: str = ""
    size: int = 0
    device: str = ""


@dataclass(frozen=True)
class SeenSubsystem:
    """A subsystem of the box. ``allowed_hosts`` None: who may connect cannot be read; ``any_host``: everybody may.

    ``controllers`` are the host NQNs of live controllers, None where the box does not tell.
    """

    nqn: str
    portals: Tuple[SeenPortal, ...] = ()
    namespaces: Tuple[SeenNamespace, ...] = ()
    allowed_hosts: Optional[Tuple[str, ...]] = None
    any_host: bool = False
    serial: str = ""
    model: str = ""
    controllers: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class Seen:
    """What a box exports. ``identity`` is its chassis UUID, ``portals`` those that answered, ``problems`` what could
    not be read ("subject: why"), ``details`` what only the driver needs to compare."""

    driver: str
    subsystems: Tuple[SeenSubsystem, ...] = ()
    product: str = ""
    identity: str = ""
    portals: Tuple[SeenPortal, ...] = ()
    problems: Tuple[str, ...] = ()
    details: Dict[str, str] = field(default_factory=dict)
    free_devices: Tuple[SeenNamespace, ...] = ()

    def subsystem(self, nqn: str) -> Optional[SeenSubsystem]:
        """The subsystem of that name, or None."""
        return next((item for item in self.subsystems if item.nqn == nqn), None)


def instruction(plan: BoxPlan, nqn: str, host_nqn: str, allow: bool = True) -> str:
    """What an operator has to do on the box to let a host in or out, in one sentence."""
    name = plan.owners.get(host_nqn, "")
    who = "%s (%s)" % (host_nqn, name) if name else host_nqn
    if allow:
        return "on %s, allow host NQN %s on subsystem %s, and no other host" % (plan.box, who, nqn)
    return "on %s, remove host NQN %s from the hosts allowed on subsystem %s" % (plan.box, who, nqn)


def _listed(names: Sequence[str]) -> str:
    more = " and %d more" % (len(names) - _SHOWN) if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


class Driver:
    """The interface. Calls raise BoxError when the box cannot be asked or refuses, ByHand when it offers no way."""

    name = ""

    def __init__(self, host: Host, plan: BoxPlan) -> None:
        self.host = host
        self.plan = plan
        self.desired: Dict[str, List[TargetNamespace]] = {}
        for item in plan.namespaces:
            self.desired.setdefault(item.nqn, []).append(item)

    def preflight(self) -> List[Finding]:
        """What would stop the driver. Reads only."""
        return []

    def discover(self) -> Seen:
        """What the box exports. Reads only."""
        raise NotImplementedError

    def changes(self, seen: Seen) -> List[Change]:
        """What makes the box export what the plan says; nothing where the driver can only look."""
        return []

    def grant(self, nqn: str, host_nqn: str) -> None:
        """Let a host connect to a subsystem. One that may already is left as it is."""
        raise ByHand("driver %s cannot change who may connect" % self.name, instruction(self.plan, nqn, host_nqn))

    def revoke(self, nqn: str, host_nqn: str) -> None:
        """Let a host no longer connect to a subsystem, and end its controllers where the box can."""
        raise ByHand(
            "driver %s cannot change who may connect" % self.name, instruction(self.plan, nqn, host_nqn, allow=False)
        )

    def removal(self, seen: Seen) -> List[Change]:
        """What takes back what the plan made on the box."""
        return []

    def close(self) -> None:
        """End sessions with the box."""

    def findings(self, seen: Seen) -> List[Finding]:
        """What does not hold, judged the same for every driver from what it could see."""
        found = [self._unreadable(text) for text in seen.problems]
        for nqn, namespaces in sorted(self.desired.items()):
            have = seen.subsystem(nqn)
            if have is None:
                if self.must_see(nqn, seen):
                    found.append(
                        Finding("box.subsystem", nqn, "not exported", "exported", self.remedy(nqn, namespaces[0]))
                    )
                continue
            found += self._portal_findings(have, seen)
            found += self._access_findings(have, namespaces[0].allowed_hosts)
            found += self._namespace_findings(have, namespaces)
        return found + self._extra(seen)

    def must_see(self, nqn: str, seen: Seen) -> bool:
        """Whether a subsystem that was not seen is missing, and not just out of sight."""
        return True

    def remedy(self, nqn: str, namespace: TargetNamespace) -> str:
        """What to do about a subsystem that is not there."""
        return "create it on %s, or correct g35_ebof: g35ctl discover %s shows what is there" % (
            self.plan.box,
            self.plan.box,
        )

    def _unreadable(self, text: str) -> Finding:
        subject, _, why = text.partition(": ")
        return Finding(
            "box.read", subject, why or text, "an answer", "check the address, and the box's own log", "warning"
        )

    def _portal_findings(self, have: SeenSubsystem, seen: Seen) -> List[Finding]:
        answered = {(item.address, item.port) for item in seen.portals}
        offered = {(item.address, item.port) for item in have.portals}
        found = []
        for portal in self.plan.portals:
            key = (portal.address, portal.port)
            if key not in offered and (not answered or key in answered):
                shown = ", ".join(str(item) for item in have.portals) or "nowhere"
                found.append(
                    Finding("box.portal", have.nqn, "offered at %s" % shown, "%s:%d" % key,
                            "add the portal on %s, or correct g35_ebof.portals" % self.plan.box)
                )  # fmt: skip
        return found

    def _access_findings(self, have: SeenSubsystem, wanted: Sequence[str]) -> List[Finding]:
        names = ", ".join(self.named(item) for item in wanted) or "no host"
        if have.any_host:
            remedy = instruction(self.plan, have.nqn, wanted[0]) if wanted else "let nobody in on %s" % self.plan.box
            return [Finding("box.access", have.nqn, ANY_HOST, names, remedy, "warning")]
        if have.allowed_hosts is None:
            remedy = "%s; stage connect shows whether the owner is let in" % (
                instruction(self.plan, have.nqn, wanted[0]) if wanted else "let nobody in"
            )
            return [Finding("box.access", have.nqn, "cannot be read from this box", names, remedy, "info")]
        found = []
        for host_nqn in sorted(set(wanted) - set(have.allowed_hosts)):
            found.append(
                Finding("box.access", have.nqn, "refuses %s" % self.named(host_nqn), "admits it",
                        instruction(self.plan, have.nqn, host_nqn))
            )  # fmt: skip
        for host_nqn in sorted(set(have.allowed_hosts) - set(wanted)):
            found.append(
                Finding("box.access", have.nqn, "admits %s" % self.named(host_nqn), names,
                        instruction(self.plan, have.nqn, host_nqn, allow=False))
            )  # fmt: skip
        return found

    def named(self, host_nqn: str) -> str:
        """A host NQN with the inventory name that it belongs to."""
        name = self.plan.owners.get(host_nqn)
        return "%s (%s)" % (name, host_nqn) if name else host_nqn

    def _namespace_findings(self, have: SeenSubsystem, wanted: Sequence[TargetNamespace]) -> List[Finding]:
        if not have.namespaces:
            return []
        found = []
        by_nsid = {item.nsid: item for item in have.namespaces}
        for item in wanted:
            seen = by_nsid.get(item.nsid)
            what = "nsid %d of %s" % (item.nsid, item.nqn)
            remedy = "correct uuid and nsid in g35_ebof: g35ctl discover %s shows them" % self.plan.box
            if seen is None:
                listed = ", ".join(str(number) for number in sorted(by_nsid))
                found.append(Finding("box.namespace", what, "only nsid %s" % listed, "exported", remedy))
            elif seen.uuid and seen.uuid.lower() != item.uuid:
                found.append(
                    Finding("box.namespace", what, "UUID %s" % seen.uuid.lower(), "UUID %s" % item.uuid, remedy)
                )
        return found

    def _extra(self, seen: Seen) -> List[Finding]:
        """What the box exports beyond the inventory: told, and left alone."""
        found = []
        extra = sorted(item.nqn for item in seen.subsystems if item.nqn not in self.desired)
        if extra:
            found.append(
                Finding("box.extra", self.plan.box, "also exports %s" % _listed(extra), "only what g35_ebof lists",
                        "add them to g35_ebof, or leave them: g35ctl never touches them", "info")
            )  # fmt: skip
        planned = {(item.address, item.port) for item in self.plan.portals}
        portals = sorted(
            {str(item) for have in seen.subsystems if have.nqn in self.desired for item in have.portals
             if (item.address, item.port) not in planned}
        )  # fmt: skip
        if portals:
            found.append(
                Finding("box.extra", self.plan.box, "also listens at %s" % _listed(portals),
                        "only the portals in g35_ebof", "add them to g35_ebof.portals so that they are used", "info")
            )  # fmt: skip
        return found

    def change(
        self, what: str, before: str, after: str, do: Callable[..., Any], *arguments: Any, disruptive: str = ""
    ) -> Change:
        """A change that calls ``do`` with ``arguments``."""
        call: Callable[[], None] = functools.partial(do, *arguments)
        return Change(what, before, after, call, disruptive)

    def live(self, have: SeenSubsystem, hosts: Optional[Set[str]] = None) -> str:
        """What ending controllers (of ``hosts``, or all) would interrupt; empty when nobody is connected."""
        if have.controllers is None:
            allowed = have.allowed_hosts or ()
            concerned = sorted(set(allowed) & hosts) if hosts is not None else list(allowed)
            return "controllers of %s, if there are any" % have.nqn if concerned or have.any_host else ""
        peers = sorted({item for item in have.controllers if hosts is None or item in hosts})
        return "controllers of %s (connected: %s)" % (have.nqn, ", ".join(map(self.named, peers))) if peers else ""


class BoxStage(Stage):
    """Applies a BoxPlan through its driver."""

    name = "box"
    settle_seconds = 5.0

    def __init__(self, host: Host, driver: Driver) -> None:
        super().__init__(host)
        self.driver = driver
        self.plan = driver.plan

    def preflight(self) -> List[Finding]:
        return self.driver.preflight()

    def read(self) -> Dict[str, Any]:
        """What the box exports, as :class:`Seen`."""
        return dump(self.driver.discover())

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        return self.driver.changes(load(Seen, state))

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        return self.driver.findings(load(Seen, state))

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        """Every owner loses its permission; namespaces and their data stay as they are."""
        seen = load(Seen, state)
        todo = []
        for nqn, namespaces in sorted(self.driver.desired.items()):
            have = seen.subsystem(nqn)
            for host_nqn in namespaces[0].allowed_hosts if have is not None and have.allowed_hosts else ():
                assert have is not None
                if host_nqn in (have.allowed_hosts or ()):
                    todo.append(
                        self.driver.change("host %s of %s" % (self.driver.named(host_nqn), nqn), "allowed", "refused",
                                           self.driver.revoke, nqn, host_nqn,
                                           disruptive=self.driver.live(have, {host_nqn}))
                    )  # fmt: skip
        return todo

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        return self.driver.removal(load(Seen, state))


def act(
    make: Callable[[], BoxStage], action: str, *, check: bool = False, allow_disruptive: bool = False
) -> Dict[str, Any]:
    """Run ``action`` on the stage that ``make`` builds and give the module's result.

    A box that cannot be asked is a finding like any other. ``discover`` only reads, and judges nothing.
    """
    stage = None
    try:
        stage = make()
        if action == "discover":
            state = stage.read()
            return {"action": action, "changed": False, "failed": False, "msg": "", "changes": [], "findings": [],
                    "state": state, "diff": {"before": "", "after": ""}}  # fmt: skip
        return converge.act(stage, action, check=check, allow_disruptive=allow_disruptive).result()
    except SchemaError as error:
        finding = Finding("box.plan", "plan", str(error), "a valid plan", "use the plan that g35ctl computes")
    except BoxError as error:
        finding = Finding("box.reach", stage.plan.box if stage else "box", str(error), "an answer", error.remedy)
    finally:
        if stage is not None:
            stage.driver.close()
    message = "%s: %s" % (finding.subject, finding.observed)
    return converge.Outcome(action, False, True, message, findings=[asdict(finding)]).result()
