"""Errors that reach the user: what, where, why, and the command to run next."""

from __future__ import annotations

from g35ctl.exits import Exit


class G35Error(Exception):
    """An error with an exit code and a remedy; ``cli.main`` prints it and exits.

    ``what`` is one sentence, ``why`` the cause in evidence, ``next_command`` what the user should run or change.
    """

    def __init__(
        self, what: str, *, why: str = "", next_command: str = "", exit_code: Exit = Exit.DEPLOY_FAILED
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.next_command = next_command
        self.exit_code = exit_code

    def failures(self) -> list[dict[str, object]]:
        """The error as ``failures`` of a JSON document of the command line."""
        observed = f"{self.what}: {self.why}" if self.why else self.what
        return [
            {
                "host": "",
                "stage": "",
                "check": self.exit_code.name.lower(),
                "observed": observed,
                "expected": "",
                "remedy": self.next_command,
            }
        ]
