"""What the verbs for a fleet in service share: a session, an act in it, its report."""

from __future__ import annotations

import typer

from g35ctl.engine.lifecycle.verb import Work
from g35ctl.engine.session import Session


def carry_out(path: str, form: str, verb: str, what: str, work: Work, *, forks: int | None = None) -> None:
    """Open a session, do the act, print its end and exit with its code."""
    from g35ctl.cli.outcome import report_conclusion
    from g35ctl.engine.conclusion import conclude
    from g35ctl.engine.lifecycle.verb import run_act
    from g35ctl.engine.opening import open_session
    from g35ctl.engine.progress import make_display

    display = make_display(form)
    with open_session(path, verb, display, forks=forks) as session:
        run, verdicts = run_act(session, what, work)
        conclusion = conclude(session, run, verdicts)
        display.end()
    report_conclusion(conclusion, form, f"g35ctl -i {path} {verb} {what}".rstrip())
    raise typer.Exit(int(conclusion.run.exit_code))


def show_moves(path: str, form: str, verb: str, subject: str, most: int = 0, tolerance: float = 0.1) -> None:
    """Print the moves that a verb would make, and exit 10 when there are any."""
    from g35ctl.cli.common import print_data, print_json
    from g35ctl.engine.lifecycle.acts import MoveOptions, propose
    from g35ctl.engine.opening import open_session
    from g35ctl.engine.progress import make_display
    from g35ctl.exits import Exit

    options = MoveOptions(most=most, tolerance=tolerance)
    with open_session(path, verb, make_display(form)) as session:
        moves = propose(session, verb, subject or session.plan.site, options)
        _finish(session)
    if form == "text":
        for move in moves:
            nqns = ", ".join(nqn for _, nqn in move.subsystems)
            boxes = ", ".join(dict.fromkeys(box for box, _ in move.subsystems))
            print_data(f"{nqns}  {boxes}  {move.size / 2**30:.1f} GiB  {move.source} -> {move.target}")
        print_data(f"{len(moves)} moves, {sum(move.size for move in moves) / 2**30:.1f} GiB")
    else:
        print_json({"ok": True, "moves": [{**vars(move), "uuids": list(move.uuids)} for move in moves]})
    raise typer.Exit(int(Exit.CHANGES_PENDING if moves else Exit.OK))


def _finish(session: Session) -> None:
    session.folder.finish({**session.folder.summary(), "status": "finished", "exit_code": 0})
