"""The thin shell around a stage that makes it an Ansible module."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-not-found,unused-ignore]

from .converge import ACTIONS, Stage, act
from .host import Host
from .schema import SchemaError

LOCK = "/run/g35ctl.lock"
#: how long to wait for a module that an interrupted run left working on this host, seconds
PATIENCE = 600.0


class Busy(Exception):
    """Another module of ours is still changing this host."""


@contextmanager
def alone(path: str = LOCK, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the host's lock, so that two runs never change one host at once. Raises Busy after ``patience`` seconds.

    A controller that is stopped cannot stop what already runs here; the next run waits for it to end.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= deadline:
                    raise Busy("%s has been held for %g s" % (path, patience)) from None
                time.sleep(0.5)
        yield
    finally:
        os.close(descriptor)


def run_stage_module(
    build: Callable[..., Stage], secrets: bool = False, options: Optional[Dict[str, Dict[str, Any]]] = None
) -> None:
    """Parse the common arguments, run the asked action of the stage that ``build`` makes, and exit with its outcome.

    With ``secrets`` the module has a parameter of that name, which Ansible never logs, and ``build`` gets it third.
    ``options`` are further parameters of the module, which ``build`` gets by name.
    """
    options = options or {}
    arguments: Dict[str, Any] = {
        "action": {"type": "str", "choices": list(ACTIONS), "default": "apply"},
        "plan": {"type": "dict", "required": True},
        "allow_disruptive": {"type": "bool", "default": False},
    }
    arguments.update(options)
    if secrets:
        arguments["secrets"] = {"type": "dict", "default": {}, "no_log": True}
    module = AnsibleModule(argument_spec=arguments, supports_check_mode=True)
    try:
        more = (module.params["secrets"],) if secrets else ()
        stage = build(Host(), module.params["plan"], *more, **{name: module.params[name] for name in options})
    except SchemaError as error:
        module.fail_json(msg="the plan given to this module is not valid: %s" % error, findings=[])
    action = module.params["action"]
    consent = module.params["allow_disruptive"]
    if module.check_mode or action in ("preflight", "verify"):
        outcome = act(stage, action, check=module.check_mode, allow_disruptive=consent)
    else:
        try:
            with alone():
                outcome = act(stage, action, allow_disruptive=consent)
        except Busy as error:
            module.fail_json(msg="another run is still changing this host: %s" % error, findings=[])
    result = outcome.result()
    if result.pop("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
