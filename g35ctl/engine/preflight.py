"""Preflight alone: who answers at all, then every host's own word, everything wrong told at once."""

from __future__ import annotations

from g35ctl.engine.connections import answering, connections
from g35ctl.engine.deploy import Deployment, DeployOptions
from g35ctl.engine.run import Run
from g35ctl.engine.session import Session
from g35ctl.engine.stages import logged_in


def run_preflight(session: Session, limit: str) -> Run:
    """Ask all ssh servers for a greeting (10 s), then run the preflight playbook on those that gave one."""
    options = DeployOptions(limit=limit, only=("preflight",), resume=False)
    deployment = Deployment(session, options)
    for failure in answering(connections(session.inventory, logged_in(session.plan, deployment.hosts))):
        deployment.lose(failure)
    return deployment.run().run
