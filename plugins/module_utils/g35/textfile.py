"""What ``g35-metrics.service`` runs: ``python3 -I /usr/lib/g35ctl/g35/textfile.py``. The work is in exporter.py."""

from __future__ import annotations

import importlib
import os
import sys


def main() -> int:
    """Collect once; returns the exit code."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return int(importlib.import_module("g35.exporter").run())


if __name__ == "__main__":
    sys.exit(main())
