"""The fabric suite on a host: servers listen before anybody is let through, and never outlive their round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35.bench_fabric import FabricSuite
from ansible.module_utils.g35.bench_jobs import FabricJob, FabricRound, PairStep
from ansible.module_utils.g35.children import Stopped
from ansible.module_utils.g35.gate import GateLost
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.plans import FabricPort
from bench_fakes import GATE, Meetings, Programs

ADDRESSES = {"gpu1": "192.0.2.21", "gpu2": "192.0.2.22"}


def step(test: str, client: str = "gpu1", server: str = "gpu2", size: int = 65536) -> PairStep:
    return PairStep(f"k {test}", test, "a", server, client, ADDRESSES[server], ADDRESSES[client], "eth1", "eth1", size)


def job(*steps: PairStep, **settings: Any) -> FabricJob:
    values: dict[str, Any] = {
        "host": "gpu1",
        "gate": GATE,
        "ports": (FabricPort("eth1", "a", "192.0.2.21", 24, 9000),),
        "rounds": tuple(FabricRound(item.key, 30, (item,)) for item in steps),
        "seconds": 5,
        "latency_iterations": 1000,
        "queue_pairs": 4,
        "depth": 128,
        "tos": 106,
        "first_port": 18500,
    }
    return FabricJob(**(values | settings))


class Tools(Host):
    """A host with one data port; whatever is started listens at once."""

    def __init__(self, root: Path, help_text: str = "--source_ip ", device: bool = True) -> None:
        super().__init__(str(root), runner=self._answer, sleep=lambda _: None)
        self.help_text = help_text
        self.listening = True
        net = root / "sys/class/net/eth1"
        net.mkdir(parents=True)
        (net / "speed").write_text("100000\n")
        if device:
            (net / "device/infiniband/mlx5_0").mkdir(parents=True)

    def _answer(self, argv: Any, stdin: str | None, timeout: float) -> Result:
        return Result(argv, 0, self.help_text if "--help" in argv else "", "")

    def read(self, absolute: str) -> str | None:
        if absolute != "/proc/net/tcp":
            return super().read(absolute)
        lines = [f"   0: 150200C0:{port:04X} 00000000:0000 0A 0" for port in range(18501, 18600)]
        return "\n".join(["  sl  local_address", *(lines if self.listening else [])])


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., FabricSuite]:
    def build(what: FabricJob, meetings: Meetings, programs: Programs, **options: Any) -> FabricSuite:
        host = Tools(tmp_path, **{key: options.pop(key) for key in ("help_text", "device") if key in options})
        options.setdefault("free", lambda address, port: True)
        return FabricSuite(host, what, meetings, programs, **options)

    return build


def test_a_client_measures_against_the_port_its_server_told(make: Callable[..., FabricSuite]) -> None:
    programs = Programs(lambda argv: Result(argv, 0, "the report", ""))
    meetings = Meetings({"gpu2": {"ports": {"k write": 18507}, "problems": {}}})
    state = make(job(step("write")), meetings, programs).run()
    (only,) = state["steps"]
    assert only["out"] == "the report"
    assert only["command"] == (
        "ib_write_bw -d mlx5_0 -p 18507 -F --tclass=106 --source_ip=192.0.2.21 -s 65536 -D 5 -q 4 -t 128 192.0.2.22"
    )
    assert state["speeds"] == {"eth1": 100000}
    assert meetings.names == ["k write", "k write, done", "end"]
    assert programs.left == []


def test_a_server_is_bound_to_its_rail_and_runs_before_the_gate_opens(make: Callable[..., FabricSuite]) -> None:
    programs = Programs()
    meetings = Meetings()
    state = make(job(step("read", client="gpu2", server="gpu1")), meetings, programs).run()
    (server,) = programs.started
    assert "--source_ip=192.0.2.21" in server.argv
    assert server.argv[-1] != "192.0.2.21"  # it connects to nobody
    assert meetings.payloads[0] == {"ports": {"k read": 18501}, "problems": {"k read": ""}}
    assert state["steps"] == []
    assert programs.left == []


@pytest.mark.parametrize("error", [GateLost("gone"), Stopped("asked"), KeyboardInterrupt()])
def test_servers_are_ended_whatever_happens(make: Callable[..., FabricSuite], error: BaseException) -> None:
    programs = Programs()
    with pytest.raises(type(error)):
        make(job(step("read", "gpu2", "gpu1")), Meetings(lost=error), programs).run()  # type: ignore[arg-type]
    assert len(programs.started) == 1
    assert programs.left == []


def test_a_stop_between_rounds_measures_nothing_more(make: Callable[..., FabricSuite]) -> None:
    programs = Programs()
    with pytest.raises(Stopped):
        make(job(step("write")), Meetings({"gpu2": {"ports": {}}}), programs, stopped=lambda: True).run()
    assert programs.started == []


def test_the_option_that_binds_has_another_name_in_later_releases(make: Callable[..., FabricSuite]) -> None:
    programs = Programs()
    meetings = Meetings({"gpu2": {"ports": {"k write": 1}}})
    make(job(step("write")), meetings, programs, help_text="  --bind_source_ip  Source IP").run()
    assert "--bind_source_ip=192.0.2.21" in programs.started[0].argv


def test_latency_is_counted_in_messages_and_emulated_guests_do_not_poll(make: Callable[..., FabricSuite]) -> None:
    programs = Programs()
    meetings = Meetings({"gpu2": {"ports": {"k latency": 1, "k write": 2}}})
    make(job(step("latency"), step("write"), emulated=True), meetings, programs).run()
    latency, write = (item.argv for item in programs.started)
    assert latency[:1] + latency[latency.index("-s") : latency.index("-s") + 4] == [
        "ib_send_lat", "-s", "64", "-n", "1000",
    ]  # fmt: skip
    assert "-e" in latency
    assert "-D" not in latency
    assert "-e" not in write  # perftest cannot measure for a time with events


def test_ports_in_use_are_passed_over(make: Callable[..., FabricSuite]) -> None:
    meetings = Meetings()
    make(job(step("read", "gpu2", "gpu1")), meetings, Programs(), free=lambda _, port: port > 18503).run()
    assert meetings.payloads[0]["ports"] == {"k read": 18504}


@pytest.mark.parametrize(
    ("others", "options", "told"),
    [
        ({}, {}, "gpu2 did not come"),
        ({"gpu2": {"ports": {"k write": 0}, "problems": {"k write": "the server did not start"}}}, {}, "did not start"),
        ({"gpu2": {"ports": {"k write": 1}}}, {"device": False}, "gpu1 has no RDMA device for eth1"),
    ],
)
def test_what_cannot_be_measured_says_why(
    make: Callable[..., FabricSuite], others: dict[str, Any], options: dict[str, Any], told: str
) -> None:
    programs = Programs()
    (only,) = make(job(step("write")), Meetings(others), programs, **options).run()["steps"]
    assert told in only["problem"]
    assert programs.started == []


def test_a_server_that_never_listens_is_told_and_ended(tmp_path: Path) -> None:
    host, programs, meetings = Tools(tmp_path), Programs(), Meetings()
    host.listening = False
    seconds = iter(range(0, 10000, 5))
    host.clock = lambda: float(next(seconds))
    FabricSuite(host, job(step("read", "gpu2", "gpu1")), meetings, programs, free=lambda *_: True).run()  # type: ignore[arg-type]
    assert "did not start" in meetings.payloads[0]["problems"]["k read"]
    assert programs.left == []
