"""The nftables table ``inet g35``: what the kernel holds, compared with the file it was loaded from.

Only this one table is ever read or replaced; other tables of the host are not g35ctl's business.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional

from .converge import Finding
from .host import Host

PATH = "/etc/g35ctl/g35.nft"
TABLE = ["inet", "g35"]
UNIT = "g35-firewall.service"


def read(host: Host) -> Optional[Dict[str, Any]]:
    """Elements of each set and the number of rules of our table in the kernel, or None where it is not loaded."""
    result = host.run(["nft", "--json", "list", "table"] + TABLE, timeout=20)
    if not result.ok:
        return None
    try:
        items = json.loads(result.out)["nftables"]
    except (ValueError, KeyError):
        return None
    sets: Dict[str, List[str]] = {}
    rules = 0
    for item in items:
        if "set" in item:
            sets[item["set"]["name"]] = sorted(_element(element) for element in item["set"].get("elem", []))
        rules += 1 if "rule" in item else 0
    return {"sets": sets, "rules": rules}


def _element(value: Any) -> str:
    """An element in the form in which a rules file writes it."""
    if isinstance(value, dict):
        if "elem" in value:
            return _element(value["elem"].get("val"))
        if "range" in value:
            return "-".join(str(end) for end in value["range"])
        if "prefix" in value:
            return "%s/%s" % (value["prefix"]["addr"], value["prefix"]["len"])
    return str(value)


def planned(text: str) -> Dict[str, Any]:
    """The same reading of a rendered rules file."""
    sets: Dict[str, List[str]] = {}
    for name, body in re.findall(r"^\s*set (\S+) \{(.*?)^\s*\}", text, re.MULTILINE | re.DOTALL):
        elements = re.search(r"elements = \{(.*?)\}", body, re.DOTALL)
        listed = elements.group(1).split(",") if elements else []
        sets[name] = sorted(item.strip().strip('"') for item in listed if item.strip())
    rules = re.findall(r"^\s+.*\b(?:accept|drop)$", text, re.MULTILINE)
    return {"sets": sets, "rules": len(rules)}


def finding(state: Optional[Dict[str, Any]], text: str) -> Optional[Finding]:
    """What differs between the kernel's table and the rendered file, or None."""
    remedy = "systemctl restart g35-firewall.service; nft list table inet g35"
    if state is None:
        return Finding("cache.firewall", "table inet g35", "not loaded", "loaded", remedy)
    wanted = planned(text)
    differing = [name for name in wanted["sets"] if state["sets"].get(name) != wanted["sets"][name]]
    if differing:
        observed = "; ".join("%s: %s" % (name, ", ".join(state["sets"].get(name, []))) for name in differing)
        expected = "; ".join("%s: %s" % (name, ", ".join(wanted["sets"][name])) for name in differing)
        return Finding("cache.firewall", "table inet g35", observed, expected, remedy)
    if state["rules"] != wanted["rules"]:
        observed, expected = "%d rules" % state["rules"], "%d rules" % wanted["rules"]
        return Finding("cache.firewall", "table inet g35", observed, expected, remedy)
    return None
