"""Starts ansible-playbook so that it does not outlive the controller process.

ansible-runner gives its child a session of its own that ignores hang-ups: without this, a g35ctl that is killed would
leave a deploy running behind the back of the next one. Usage: ``python launch.py PROGRAM ARGUMENT...``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Ask the kernel for SIGTERM when the parent dies, then become the program."""
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    os.execv(arguments[0], arguments)  # noqa: S606 no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
