"""Hands the roles the DH-HMAC-CHAP and TLS keys that a stage plan names by file and digest."""

from __future__ import annotations

import os
import stat
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = r"""
name: g35_keys
short_description: DH-HMAC-CHAP and TLS keys of a stage plan, read on the controller
version_added: "0.1.0"
description:
  - Reads the key files that the C(authentication) and C(tls) of a target or connect plan name and returns the keys by
    host NQN.
  - Refuses a file that others than its owner can read, unless ansible-vault encrypted it. The keys are in no plan, no
    event and no run folder; pass the result to a parameter that is never logged.
options:
  _terms:
    description: The stage plans.
    required: true
author:
  - The g35ctl authors
"""

EXAMPLES = r"""
- name: Hold one controller per subsystem and rail
  g35_connect:
    plan: "{{ g35_connect_plan }}"
    secrets: "{{ lookup('g35_keys', g35_connect_plan) }}"
"""

RETURN = r"""
_raw:
  description: >-
    For each plan a mapping of host NQN to C(key) and C(controller_key), or C(psk) for TLS; empty where the plan names
    no key.
  type: list
  elements: dict
"""


class LookupModule(LookupBase):
    """The lookup."""

    def run(self, terms: Any, variables: Any = None, **kwargs: Any) -> list[dict[str, dict[str, str]]]:
        """The keys of each plan. Raises AnsibleError for a file that is missing or open to others."""
        return [self._all(plan) for plan in terms]

    def _all(self, plan: Any) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for item in _named(plan, "authentication"):
            found.setdefault(item["host_nqn"], {}).update(self._keys(item))
        for item in _named(plan, "tls"):
            found.setdefault(item["host_nqn"], {})["psk"] = self._read(item["key_file"])
        return found

    def _keys(self, item: Any) -> dict[str, str]:
        other = item.get("controller_key_file") or ""
        return {"key": self._read(item["key_file"]), "controller_key": self._read(other) if other else ""}

    def _read(self, path: str) -> str:
        try:
            with open(path, encoding="ascii") as handle:
                mode = stat.S_IMODE(os.fstat(handle.fileno()).st_mode)
                text = handle.read()
            if text.startswith("$ANSIBLE_VAULT;"):
                return str(self._loader.get_text_file_contents(path)).strip()
        except (OSError, UnicodeDecodeError, AnsibleError) as error:
            # The cause may quote what it could not decode: only its kind is told.
            why = str(error) if isinstance(error, OSError) else type(error).__name__
            raise AnsibleError("the key in %s cannot be read: %s" % (path, why)) from None
        if mode & 0o077:
            raise AnsibleError("%s can be read by others: chmod 600 %s" % (path, path))
        return text.strip()


def _named(plan: Any, what: str) -> list[Any]:
    found = plan.get(what) or []
    return [found] if isinstance(found, dict) else list(found)
