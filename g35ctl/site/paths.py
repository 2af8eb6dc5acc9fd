"""Paths on the controller that follow from where the inventory is."""

from __future__ import annotations

from pathlib import Path

from g35ctl.site.model import Site, SiteHost


def inventory_directory(inventory: str) -> Path:
    """The directory of an inventory: itself when it is one, else the directory of the file."""
    path = Path(inventory).expanduser().absolute()
    return path if path.is_dir() else path.parent


def wheelhouse(site: Site, host: SiteHost) -> Path:
    """The directory of wheels that the controller pushes to a host."""
    mooncake = host.mooncake
    if not mooncake.wheelhouse:
        from g35ctl.bundle.wheelhouse import default_directory

        return default_directory(mooncake.distribution, mooncake.version)
    return inventory_directory(site.inventory) / Path(mooncake.wheelhouse).expanduser()
