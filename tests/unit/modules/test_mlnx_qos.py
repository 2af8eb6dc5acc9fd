"""What the vendor's tool prints becomes the same state as what dcb prints, or a typed error."""

from __future__ import annotations

import re

import pytest
from ansible.module_utils.g35 import mlnx_qos
from ansible.module_utils.g35.dcb import DcbError

RECORDED = """DCBX mode: OS controlled
Priority trust state: dscp
dscp2prio mapping:
\tprio:0 dscp:07,06,05,04,03,02,01,00,
\tprio:3 dscp:31,30,29,28,27,26,25,24,
\tprio:6 dscp:48,
Cable len: 7
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0   \x20
tc: 0 ratelimit: unlimited, tsa: vendor
\t priority:  1
tc: 1 ratelimit: 25.0 Gbps, tsa: ets, bw: 40%
\t priority:  0
tc: 2 ratelimit: unlimited, tsa: strict
\t priority:  2
\t priority:  3
\t priority:  4
\t priority:  5
\t priority:  6
\t priority:  7
"""


def test_mlnx_qos_text_is_understood() -> None:
    warning = "****** WARNING: lldpad service is running and may overwrite your settings ******\n"
    state = mlnx_qos.parse(warning + RECORDED)
    assert (state.dcbx, state.trust, state.pfc, state.buffers) == (("host", "ieee"), "dscp", (3,), None)
    assert [priority for dscp, priority in state.dscp if dscp == 26] == [3]
    assert len(state.dscp) == 17
    assert state.ets is not None
    assert state.ets.priorities == (1, 0, 2, 2, 2, 2, 2, 2)
    assert state.ets.selection[:3] == ("vendor", "ets", "strict")
    assert state.ets.bandwidth[:3] == (0, 40, 0)


@pytest.mark.parametrize("cut", [r"\tenabled.*\n", r"\t priority:  5\n", r"(?s).*"])
def test_mlnx_qos_text_that_lacks_something_is_an_error(cut: str) -> None:
    with pytest.raises(DcbError):
        mlnx_qos.parse(re.sub(cut, "", RECORDED, count=1))
