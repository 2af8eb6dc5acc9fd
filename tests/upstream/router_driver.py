"""Runs in an environment with both published routers: parses argument lists with their code.

Usage: ``python router_driver.py`` with the cases as JSON on stdin; answers with JSON on stdout.
"""

from __future__ import annotations

import importlib
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


def parse(module: str, arguments: list[str]) -> dict[str, Any]:
    """What the router makes of an argument list; ``error`` where it refuses."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            parsed = importlib.import_module(module).parse_router_args(arguments)
            if hasattr(parsed, "_validate_router_args"):
                parsed._validate_router_args()
    except SystemExit:
        return {"error": said.getvalue().strip().splitlines()[-1]}
    except ValueError as error:
        return {"error": str(error)}
    kinds = (str, int, float, bool, list, tuple)
    return {name: value for name, value in vars(parsed).items() if isinstance(value, kinds)}


def main() -> None:
    cases = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        answers = [parse(case["module"], case["arguments"]) for case in cases]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
