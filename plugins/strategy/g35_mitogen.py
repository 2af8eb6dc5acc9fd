"""Mitogen's linear strategy for modules whose shared code imports relatively, as that of g35ctl does."""

from __future__ import annotations

import collections
import importlib.machinery
import importlib.util
from typing import Any, Iterator

import ansible_mitogen.loaders
import ansible_mitogen.module_finder as finder
import ansible_mitogen.strategy
import mitogen.imports

DOCUMENTATION = r"""
name: g35_mitogen
short_description: Mitogen's linear strategy, with relative imports followed
version_added: "0.1.0"
description:
  - Mitogen finds the module utilities that a module needs by their absolute names. The shared code of g35ctl is one
    package in three places (shipped with a module, on the controller, on a host at boot) and so imports relatively.
    This strategy follows relative imports, too; everything else is mitogen_linear.
  - Used by C(g35ctl deploy --accelerate mitogen).
requirements: [mitogen]
author:
  - The g35ctl authors
"""

_PREFIX = finder.PREFIX.rstrip(".")


def scan(module_name: str, module_path: str, search_path: Any) -> list[tuple[str, str, bool]]:
    """The module utilities that a module needs, as ``ansible_mitogen.module_finder.scan`` returns them."""
    prefix = importlib.machinery.ModuleSpec(_PREFIX, loader=None)
    prefix.submodule_search_locations = list(search_path)
    specs: dict[str, Any] = {_PREFIX: prefix}
    queue = collections.deque([importlib.machinery.ModuleSpec(module_name, loader=None, origin=module_path)])
    while queue:
        spec = queue.popleft()
        if spec.origin is None:
            continue
        with open(spec.origin, "rb") as handle:
            code = compile(handle.read(), spec.name, "exec")
        for name in _wanted(code, spec):
            parent = specs.get(name.rpartition(".")[0])
            if name in specs:
                continue
            specs[name] = None
            if parent is None or not parent.submodule_search_locations:
                continue
            found = importlib.util._find_spec(name, parent.submodule_search_locations)  # type: ignore[attr-defined]
            if found is not None and found.origin is not None:
                specs[name] = found
                queue.append(found)
    del specs[_PREFIX]
    found = [item for item in specs.values() if item is not None]
    return sorted((item.name, item.origin, item.submodule_search_locations is not None) for item in found)


def _wanted(code: Any, spec: Any) -> Iterator[str]:
    """Names below the prefix that the code imports, parents before children."""
    for level, name, leaves in mitogen.imports.codeobj_imports(code):
        full = name
        if level > 0:
            # A package is its own parent, a module's is the package it lies in.
            parts = spec.name.split(".")
            up = level - 1 if spec.submodule_search_locations is not None else level
            base = ".".join(parts[: len(parts) - up])
            full = "%s.%s" % (base, name) if name else base
        if full != _PREFIX and not full.startswith(_PREFIX + "."):
            continue
        below = full.split(".")
        for end in range(len(_PREFIX.split(".")) + 1, len(below) + 1):
            yield ".".join(below[:end])
        for leaf in leaves or ():
            yield "%s.%s" % (full, leaf)


# Before mitogen's processes are forked from this one.
finder.scan = scan

Base = ansible_mitogen.loaders.strategy_loader.get("linear", class_only=True)


class StrategyModule(ansible_mitogen.strategy.StrategyMixin, Base):  # type: ignore[misc,valid-type]
    """mitogen_linear."""
