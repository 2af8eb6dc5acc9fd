"""``init`` writes sites that pass ``check``."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from g35ctl.content import content_root
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.site.load import inspect
from g35ctl.site.scaffold import Answers, files, write


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.builds(
        Answers,
        boxes=st.integers(1, 5),
        hosts=st.integers(1, 9),
        ssds=st.integers(1, 8),
        ssd_size=st.sampled_from(["7.68TB", "4GiB", "1 TiB"]),
        driver=st.sampled_from(["static", "nvmet"]),
        transport=st.sampled_from(["rdma", "tcp"]),
    )
)
def test_every_scaffolded_site_is_valid(tmp_path_factory: pytest.TempPathFactory, answers: Answers) -> None:
    directory = tmp_path_factory.mktemp("site")
    write(directory, answers, force=True)
    site, problems = inspect(str(directory))
    assert [str(problem) for problem in problems if problem.severity == "error"] == []
    assert site is not None
    boxes = [host.box for host in site.group("ebof") if host.box is not None]
    assert (len(boxes), len(site.group("gpu_hosts"))) == (answers.boxes, answers.hosts)
    assert {len(box.namespaces) for box in boxes} == {answers.ssds}
    assert {box.driver for box in boxes} == {answers.driver}


def test_the_same_answers_give_the_same_files() -> None:
    assert files(Answers(name="a")) == files(Answers(name="a"))


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(G35Error, match="not an empty directory") as raised:
        write(tmp_path, Answers())
    assert raised.value.exit_code == Exit.USAGE
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    write(tmp_path, Answers(), force=True)
    assert (tmp_path / "precious").read_text() == "mine"


def test_all_wrong_answers_are_named_at_once() -> None:
    with pytest.raises(G35Error) as raised:
        Answers(name="No Name", boxes=0, hosts=300, ssd_size="1GX", driver="spdk", transport="rdmaa", mtu=1)
    told = raised.value.why.splitlines()
    assert raised.value.exit_code == Exit.USAGE
    assert len(told) == 8  # each rail's subnet is too small for 300 hosts
    assert any("'1GX' is not a size" in line for line in told)


def test_rails_must_not_overlap() -> None:
    with pytest.raises(G35Error) as raised:
        Answers(rails=(("a", "192.0.2.0/24", "eth1"), ("a", "192.0.2.0/24", "not a device")))
    assert len(raised.value.why.splitlines()) == 3


@pytest.mark.parametrize("name", ["lab", "two-hosts", "fleet", "published"])
def test_the_examples_are_valid(name: str) -> None:
    site, problems = inspect(str(content_root() / "inventories" / name))
    assert site is not None, [str(problem) for problem in problems]
    assert {problem.where for problem in problems} <= {"g35_mooncake.wheelhouse"}
