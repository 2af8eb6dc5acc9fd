"""Where the Ansible content is, and how its shared code is imported on the controller.

In a checkout the content (playbooks, roles, plugins, templates, inventories) is at the top of the tree; in an
installed wheel it lies in ``g35ctl/_content``. Everything that needs a path asks this module.

What both modules and the command line need lives in ``plugins/module_utils/g35`` and is imported as
``ansible.module_utils.g35`` by a shipped module (AnsiballZ packs it under that name), by unit tests and by the command
line alike. Inside the package only relative imports are used.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_SHARED = "ansible.module_utils.g35"


def content_root() -> Path:
    """The directory that holds playbooks/, roles/, plugins/, templates/ and inventories/."""
    package = Path(__file__).resolve().parent
    packaged = package / "_content"
    return packaged if packaged.is_dir() else package.parent


def is_checkout() -> bool:
    """True when running from a source checkout, False from an installed wheel."""
    return not (Path(__file__).resolve().parent / "_content").is_dir()


class _SharedFinder:
    """Finds ``ansible.module_utils.g35`` in the content tree; costs nothing until it is asked for."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _SHARED:
            return None
        directory = content_root() / "plugins" / "module_utils" / "g35"
        return importlib.util.spec_from_file_location(
            fullname, directory / "__init__.py", submodule_search_locations=[str(directory)]
        )


def install_module_utils_finder() -> None:
    """Make ``ansible.module_utils.g35`` importable in this process (idempotent, imports nothing)."""
    if not any(isinstance(finder, type) and finder.__name__ == "_SharedFinder" for finder in sys.meta_path):
        sys.meta_path.append(_SharedFinder)
