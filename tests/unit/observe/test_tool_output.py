"""What fio and perftest print is read as they print it; what is cut off or unexpected is refused.

The files in recorded/ were printed by fio 3.33 and by perftest 4.5-0.17 over soft-RoCE between two emulated
guests, and transfer_engine_bench of Mooncake 0.3.13.post1 over TCP.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.observe import tool_output
from g35ctl.observe.tool_output import MIB, ToolOutputError

RECORDED = Path(__file__).parent / "recorded"
FIRST = "e61c112b-dd4f-53c7-b6b2-173d71f05d9b"
SECOND = "76579227-4b72-5832-b0e1-28618ad0ecfb"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def test_perftest_bandwidth_is_in_binary_megabytes() -> None:
    told = tool_output.perftest_bandwidth(recorded("perftest-4.5-write.txt"))
    assert (told.size, told.iterations) == (16384, 1958)
    assert told.bytes_per_second == pytest.approx(15.28 * MIB)
    read = tool_output.perftest_bandwidth(recorded("perftest-4.5-read.txt"))
    assert read.bytes_per_second == pytest.approx(4.82 * MIB)


def test_later_releases_say_the_same_number_in_another_unit() -> None:
    text = recorded("perftest-4.5-write.txt").replace("MB/sec", "MiB/sec")
    assert tool_output.perftest_bandwidth(text) == tool_output.perftest_bandwidth(recorded("perftest-4.5-write.txt"))


def test_gigabits_are_understood_and_a_unit_that_does_not_fit_is_refused() -> None:
    header = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    row = " 1048576    118000           0.00               396.51             0.047267\n"
    rule = "-" * 87 + "\n"
    told = tool_output.perftest_bandwidth(header + row + rule)
    assert told.bytes_per_second == pytest.approx(49.56e9, rel=1e-3)
    with pytest.raises(ToolOutputError, match="do not fit"):
        tool_output.perftest_bandwidth(header.replace("Gb", "MiB") + row + rule)
    with pytest.raises(ToolOutputError, match="not known"):
        tool_output.perftest_bandwidth(header.replace("Gb", "TB") + row + rule)


def test_perftest_latency_has_mean_and_percentiles() -> None:
    told = tool_output.perftest_latency(recorded("perftest-4.5-lat.txt"))
    assert (told.mean, told.p50, told.p99, told.p999, told.samples) == (1392.10, 1158.53, 5464.86, 5498.95, 200)


@pytest.mark.parametrize("name", ["perftest-4.5-write.txt", "perftest-4.5-lat.txt"])
@given(share=st.floats(0, 0.97))
def test_a_perftest_report_cut_off_anywhere_is_refused(name: str, share: float) -> None:
    text = recorded(name)
    reader = tool_output.perftest_latency if "lat" in name else tool_output.perftest_bandwidth
    with pytest.raises(ToolOutputError):
        reader(text[: int(len(text.rstrip().rstrip("-")) * share)])


def test_a_report_of_something_else_is_refused() -> None:
    with pytest.raises(ToolOutputError, match="no report"):
        tool_output.perftest_bandwidth(recorded("perftest-4.5-lat.txt"))
    with pytest.raises(ToolOutputError, match="no report"):
        tool_output.perftest_bandwidth("Couldn't connect to 192.0.2.21:18515\n")


def test_the_transfer_engines_benchmark_says_one_line() -> None:
    text = recorded("transfer_engine_bench-0.3.13.txt")
    assert tool_output.transfer_engine(text) == 24.68e6
    with pytest.raises(ToolOutputError, match="did not say"):
        tool_output.transfer_engine(text[: text.index("throughput")])
    with pytest.raises(ToolOutputError, match="not one batch"):
        tool_output.transfer_engine(text.replace("batch count 50", "batch count 0"))


def test_fio_gives_each_namespace_its_figures() -> None:
    run = tool_output.fio(recorded("fio-3.33-read-two.json"))
    assert run.version == "fio-3.33"
    assert run.disks == ("vda",)
    assert [job.name for job in run.jobs] == [FIRST, SECOND]
    first = run.jobs[0]
    assert first.moved == 531628032
    assert first.runtime == pytest.approx(1.044)
    assert first.bytes_per_second == pytest.approx(first.moved / first.runtime, rel=0.01)
    assert first.latency.samples == 507
    assert 0 < first.latency.p50 <= first.latency.p99 <= first.latency.p999


def test_fio_writing_is_read_from_the_other_half() -> None:
    assert tool_output.fio(recorded("fio-3.33-layout.json"), "write").jobs[0].moved == 8 * MIB
    with pytest.raises(ToolOutputError, match="moved no data"):
        tool_output.fio(recorded("fio-3.33-layout.json"))


def test_fio_that_failed_is_no_figure_although_its_report_follows_what_it_said() -> None:
    with pytest.raises(ToolOutputError, match=r"ended with error|moved no data"):
        tool_output.fio(recorded("fio-3.33-missing.json"))


def test_a_killed_worker_says_error_0_and_is_refused() -> None:
    text = recorded("fio-3.33-killed.json")
    jobs = json.loads(text[text.index("\n{") :])["jobs"]
    assert all(not job["error"] for job in jobs)
    with pytest.raises(ToolOutputError):
        tool_output.fio(text)


@given(share=st.floats(0, 0.99))
def test_a_fio_report_cut_off_anywhere_is_refused(share: float) -> None:
    text = recorded("fio-3.33-read-two.json").rstrip()
    with pytest.raises(ToolOutputError):
        tool_output.fio(text[: int(len(text) * share)])


@pytest.mark.parametrize("text", ["[]", "{}", '{"jobs": [{}], "fio version": "x"}', '{"jobs": [], "fio version": "x"}'])
def test_json_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        tool_output.fio(text)
