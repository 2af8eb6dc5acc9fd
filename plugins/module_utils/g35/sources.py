"""The source text of this package's own modules, however they got here.

A checkout and the archive of a shipped module give it through their loaders. Under mitogen a module's text stays on the
controller, and its loader only knows how to ask for it.
"""

from __future__ import annotations

import sys
from typing import Any


def source_of(name: str) -> str:
    """Text of an imported module, by its full name. Raises KeyError when it is not imported."""
    loader: Any = getattr(sys.modules[name], "__loader__", None)
    if hasattr(loader, "get_source"):
        return str(loader.get_source(name) or "")
    path, _ = loader._by_fullname[name]
    text = sys.modules["ansible_mitogen.target"].get_small_file(loader._context, path)
    return bytes(text).decode("utf-8")
