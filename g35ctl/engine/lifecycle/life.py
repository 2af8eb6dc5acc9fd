"""Whether a host is dead, and whether a person has said a name: asked before anything is locked or changed."""

from __future__ import annotations

from g35ctl.engine.connections import answering, connections
from g35ctl.errors import G35Error
from g35ctl.exits import Exit


def must_be_dead(inventory: str, host: str, seconds: float = 10.0) -> None:
    """Refuse (G35Error) to fail over a host whose ssh server still answers. One behind a jump host cannot be asked."""
    found = [item for item in connections(inventory, (host,)) if item.direct]
    if found and not answering(found, seconds):
        raise G35Error(
            f"{host} is alive: its ssh server answers",
            why="a living host is drained, which loses nothing",
            next_command=f"g35ctl drain {host}; if it must be shut out all the same: g35ctl failover {host} --force",
            exit_code=Exit.PREFLIGHT_FAILED,
        )


def must_be_named(given: str, wanted: str, option: str) -> None:
    """Refuse (G35Error) a confirmation that names something else. An empty one is none."""
    if given and given != wanted:
        raise G35Error(
            f"{option} {given} does not name {wanted}",
            why="the name is typed so that it is meant",
            exit_code=Exit.USAGE,
        )
