"""Opening a session: the site loaded and planned, its lock taken, a run folder made, what a run that was cut off had
changed put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from g35ctl.engine import folder as folders
from g35ctl.engine import journal, planning
from g35ctl.engine.ledger import write_atomically
from g35ctl.engine.lock import SiteLock
from g35ctl.engine.progress import Display
from g35ctl.engine.session import Interrupt, Session


@contextmanager
def open_session(inventory: str, verb: str, display: Display, *, forks: int | None = None) -> Iterator[Session]:
    """Load and plan the site, take its lock and make the run folder.

    Raises SiteInvalid (exit 3) before anything is created, G35Error (exit 8) when another run holds the lock. Whatever
    happens inside, the lock is freed and the folder says how the run ended.
    """
    site, plan = planning.make_plan(inventory)
    state = folders.state_directory(inventory)
    with ExitStack() as stack:
        stack.enter_context(SiteLock(state, verb))
        before = folders.unfinished_run(state)
        if before is not None:
            display.say(f"the previous run {before.identifier} did not finish; continuing from what is known to hold")
            before.finish({**before.summary(), "status": "cut off"})
        folder = folders.create(state, verb)
        write_atomically(folder.plan, plan.to_json())
        interrupt = stack.enter_context(Interrupt(display))
        session = Session(inventory, verb, site, plan, state, folder, display, interrupt, datetime.now(UTC), forks)
        try:
            journal.settle(session)
            yield session
        except BaseException as error:
            folder.finish(
                {**folder.summary(), "status": "interrupted" if isinstance(error, KeyboardInterrupt) else "error",
                 "seconds": session.seconds, "why": f"{type(error).__name__}: {error}"}
            )  # fmt: skip
            raise
        finally:
            display.end()
