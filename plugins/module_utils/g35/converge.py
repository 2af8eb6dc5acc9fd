"""How every stage brings a host to its plan: read, compare, apply, read back.

A stage (target, fabric, connect, storage, cache) is a class that can read what is, say what differs from its plan, and
make each difference go away. This file does the rest once for all of them: check mode, diff, consent for disruptive
changes, the read-back that decides success, and the five actions of the role contract.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, List, Sequence

from .host import CommandFailed, Host

ACTIONS = ("preflight", "apply", "verify", "drain", "remove")
#: not of the role contract: lets go of what the plan has no more, top stage first (release.py)
RELEASE = "release"


@dataclass(frozen=True)
class Finding:
    """Something that is not as it must be, with its evidence and what to do about it.

    ``severity`` is "error" (the stage does not hold), "warning" (it holds, but) or "info". ``check`` is a stable dotted
    name such as ``connect.path``; ``subject`` says which one (an NQN, a netdev, a mount point).
    """

    check: str
    subject: str
    observed: str
    expected: str
    remedy: str
    severity: str = "error"


@dataclass(frozen=True)
class Change:
    """One difference between what is and what is planned, and how to make it go away.

    ``disruptive`` names what it would interrupt ("link flap on eth1"); empty when it interrupts nothing.
    ``check`` names the finding that tells it better when the change does not hold.
    """

    what: str
    before: str
    after: str
    do: Callable[[], None]
    disruptive: str = ""
    check: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a stage's action did; the JSON a module returns. ``awaiting`` names what the controller must push before
    an apply can begin; nothing was changed then."""

    action: str
    changed: bool
    failed: bool
    message: str
    changes: Sequence[Dict[str, str]] = ()
    findings: Sequence[Dict[str, str]] = ()
    state: Dict[str, Any] = field(default_factory=dict)
    awaiting: Sequence[str] = ()

    def result(self) -> Dict[str, Any]:
        data = asdict(self)
        data["msg"] = data.pop("message")
        data["findings"] = list(data["findings"])
        data["changes"] = list(data["changes"])
        data["awaiting"] = list(data["awaiting"])
        before = "".join("%s: %s\n" % (c["what"], c["before"]) for c in data["changes"])
        after = "".join("%s: %s\n" % (c["what"], c["after"]) for c in data["changes"])
        data["diff"] = {"before": before, "after": after}
        return data


class Stage:
    """Base of the stages. Subclasses override what they need; ``host`` and their own ``plan`` are set by __init__.

    ``read`` returns plain JSON data: it is also what status, doctor and the report show.
    """

    name = ""
    #: how long the read-back may take to come true after an apply, seconds
    settle_seconds = 0.0

    def __init__(self, host: Host) -> None:
        self.host = host

    def preflight(self) -> List[Finding]:
        """What would stop an apply. Reads only."""
        return []

    def read(self) -> Dict[str, Any]:
        """What is. Reads only."""
        raise NotImplementedError

    def changes(self, state: Dict[str, Any]) -> List[Change]:
        """The differences between ``state`` and the plan, in the order in which they must be made."""
        raise NotImplementedError

    def findings(self, state: Dict[str, Any]) -> List[Finding]:
        """Judgement of ``state`` against the plan, from what was read and nothing else."""
        raise NotImplementedError

    def awaiting(self) -> List[str]:
        """Files that the controller has to push before an apply can begin. Reads only."""
        return []

    def draining(self, state: Dict[str, Any]) -> List[Change]:
        """What quiets the stage before service on this host, losing nothing."""
        return []

    def hopeless(self, state: Dict[str, Any]) -> bool:
        """Whether the read-back after an apply cannot come true by waiting for it."""
        return False

    def letting_go(self, state: Dict[str, Any]) -> List[Change]:
        """What gives up what this host holds and its plan has no more."""
        return []

    def removal(self, state: Dict[str, Any]) -> List[Change]:
        """What undoes everything this stage made, and nothing else. Never destroys data."""
        return []

    def coming_up(self, state: Dict[str, Any]) -> bool:
        """True while what somebody else started (a boot, a lab) is on its way: an apply waits for that too."""
        return False


def act(stage: Stage, action: str, *, check: bool = False, allow_disruptive: bool = False) -> Outcome:
    """Do ``action`` for ``stage``. ``check`` computes everything and changes nothing."""
    if action == "preflight":
        found = stage.preflight()
        return _judged(action, found, {}, [], changed=False)
    state = stage.read()
    if action == "verify":
        return _judged(action, stage.findings(state), state, [], changed=False)
    if action == "apply":
        # What would stop an apply is said before anything is touched.
        blockers = [item for item in stage.preflight() if item.severity == "error"]
        if blockers:
            return _judged(action, blockers, state, [], changed=False)
        missing = [] if check else stage.awaiting()
        if missing:
            return Outcome(action, False, False, "waiting for files from the controller", state=state, awaiting=missing)
        compute = stage.changes
    else:
        compute = {"drain": stage.draining, RELEASE: stage.letting_go}.get(action, stage.removal)
    return _perform(stage, action, state, compute, check, allow_disruptive)


def _perform(
    stage: Stage,
    action: str,
    state: Dict[str, Any],
    compute: Callable[[Dict[str, Any]], List[Change]],
    check: bool,
    allow_disruptive: bool,
) -> Outcome:
    todo = compute(state)
    refused = [change for change in todo if change.disruptive] if not allow_disruptive else []
    if refused:
        found = [
            Finding(
                "%s.consent" % stage.name,
                change.what,
                "would interrupt: %s" % change.disruptive,
                "consent",
                "run again with --allow-disruptive in a maintenance window",
            )
            for change in refused
        ]
        # Whoever only asks is told everything that would be done, not just what needs consent.
        return _judged(action, found, state, todo if check else [], changed=False)
    if action == "apply" and not check and not todo and stage.coming_up(state):
        return _read_back(stage, action, compute, [])
    if check or not todo:
        found = [] if (check and todo) or action != "apply" else stage.findings(state)
        return _judged(action, found, state, todo, changed=bool(todo))
    done: List[Change] = []
    for change in todo:
        try:
            change.do()
        except (OSError, CommandFailed) as error:
            finding = Finding(
                "%s.apply" % stage.name,
                change.what,
                str(error),
                change.after,
                "see observed; then run the deploy again",
            )
            return _judged(action, [finding], stage.read(), done, changed=bool(done))
        done.append(change)
    return _read_back(stage, action, compute, done)


def _read_back(
    stage: Stage, action: str, compute: Callable[[Dict[str, Any]], List[Change]], done: List[Change]
) -> Outcome:
    """Success is what can be read afterwards, not that nothing complained."""
    latest: Dict[str, Any] = {}
    found: List[Finding] = []

    def holds() -> bool:
        nonlocal latest, found
        latest = stage.read()
        left = compute(latest)
        judged = stage.findings(latest) if action == "apply" else []
        told = {item.check for item in judged if item.severity == "error"}
        found = [
            Finding(
                "%s.read_back" % stage.name, c.what, c.before, c.after, "the change did not hold; see the host's log"
            )
            for c in left
            if c.check not in told
        ]
        found = found + judged
        return not [item for item in found if item.severity == "error"] or stage.hopeless(latest)

    stage.host.wait_until(holds, stage.settle_seconds, interval=0.5)
    return _judged(action, found, latest, done, changed=bool(done))


def _judged(
    action: str, found: Sequence[Finding], state: Dict[str, Any], changes: Sequence[Change], changed: bool
) -> Outcome:
    errors = [item for item in found if item.severity == "error"]
    message = "; ".join("%s %s: %s, expected %s" % (e.check, e.subject, e.observed, e.expected) for e in errors)
    told = [{"what": c.what, "before": c.before, "after": c.after, "disruptive": c.disruptive} for c in changes]
    return Outcome(action, changed, bool(errors), message, told, [asdict(item) for item in found], state)
