"""Exit codes of the command line, one meaning each."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the process tells its caller; documented in docs/deploy.md."""

    OK = 0
    DEPLOY_FAILED = 1
    USAGE = 2
    SITE_INVALID = 3
    PREFLIGHT_FAILED = 4
    UNREACHABLE = 5
    PARTIAL = 6
    THRESHOLDS_MISSED = 7
    LOCKED = 8
    CHANGES_PENDING = 10
    INTERRUPTED = 130
