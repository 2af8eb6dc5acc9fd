"""The table of systems and packages: complete for every system that is said to be supported."""

from __future__ import annotations

import pytest
from ansible.module_utils.g35.support import INSTALLERS, SYSTEMS, TOOLS

SAID = ("debian", "ubuntu", "rhel", "rocky", "almalinux", "openEuler", "anolis", "kos", "keyarchos")


@pytest.mark.parametrize("system", SAID)
def test_every_system_has_versions_an_installer_and_a_package_for_every_tool(system: str) -> None:
    versions, family = SYSTEMS[system]
    assert versions and INSTALLERS[family]
    for stage, tools in TOOLS.items():
        assert tools, stage
        for tool in tools:
            assert tool.package(family), (stage, tool.name)
            assert all(path.startswith("/") for path in tool.paths)
