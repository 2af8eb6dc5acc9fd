"""Striped sets that a box assembled for itself. It holds the very SSDs an owner's set lies on, and mdadm's rules
assemble whatever they find, in the initramfs too, where ours are not read. Nothing of a set is the box's business."""

from __future__ import annotations

import functools
import os
from typing import List, Sequence, Tuple

from . import stripe
from .converge import Change
from .host import Host
from .plans import TargetPlan


def assembled_here(host: Host, plan: TargetPlan) -> Tuple[str, ...]:
    """Kernel names of arrays that hold exported SSDs and are striped sets of g35ctl; none where the site has none."""
    if not plan.striped:
        return ()
    names = [os.path.basename(host.real(item.device)) for item in plan.namespaces if host.exists(item.device)]
    return tuple(array.name for array in stripe.arrays_on(host, names) if _is_set(host, array.members))


def _is_set(host: Host, members: Sequence[str]) -> bool:
    """Whether every member says that it is one of a striped set: what is an array of the box's own is not touched."""
    try:
        found = [stripe.read_superblock(host, "/dev/%s" % name) for name in members]
    except OSError:
        return False
    return bool(found) and all(item is not None and item.name.startswith(stripe.OUR_NAMES) for item in found)


def changes(host: Host, plan: TargetPlan) -> List[Change]:
    """Take them apart without mdadm, which a box need not have; the kernel refuses while one is mounted."""
    return [
        Change(
            "array %s" % name,
            "assembled on the box",
            "left to its owner",
            functools.partial(host.write_attribute, "/sys/block/%s/md/array_state" % name, "clear"),
        )
        for name in assembled_here(host, plan)
    ]
