"""The storage suite on a host: it reads, from the right device, and leaves nothing behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35.bench_jobs import Point, StorageJob, StorageRound, Target
from ansible.module_utils.g35.bench_storage import FOLDER, StorageSuite, first_extent
from ansible.module_utils.g35.children import Stopped
from ansible.module_utils.g35.gate import GateLost
from ansible.module_utils.g35.host import Result
from bench_fakes import GATE, Meetings, Programs
from nvme_kernel import MIB, SITE, namespace_uuid, nqn
from test_storage import Flash

MOUNT = f"/flash/{namespace_uuid(0)}"
TARGET = Target(namespace_uuid(0), nqn(0), 1, "ebof1", "gpu1", MOUNT, "/dev/ssd0", 40 * MIB)
REPORT = json.dumps({"jobs": [{"error": 0}]})


class Owner(Flash):
    """A host that has its namespace mounted and marked."""

    def __init__(self, root: Path, owner: str = "gpu1") -> None:
        super().__init__(root)
        self.path(MOUNT).mkdir(parents=True)
        self.mount("nvme0n1", MOUNT)
        self.marker(owner)

    @property
    def ours(self) -> Path:
        return self.path(f"{MOUNT}/{FOLDER}")


def job(*rounds: StorageRound, **settings: Any) -> StorageJob:
    values = {"host": "gpu1", "site": SITE, "gate": GATE, "ports": (), "rounds": rounds, "seconds": 5,
              "file_size": 1024 * MIB}  # fmt: skip
    return StorageJob(**(values | settings))


def take(test: str, *points: Point, target: Target = TARGET) -> StorageRound:
    return StorageRound(test, test, 60, points or (Point(MIB, 32),), (target,))


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


class Fio(Programs):
    """fio that writes the file it is told to, and its report."""

    def __init__(self, owner: Owner, code: int = 0, report: str = REPORT) -> None:
        super().__init__(self._run)
        self.owner = owner
        self.code = code
        self.report = report

    def _run(self, argv: list[str]) -> Result:
        words = dict(word[2:].partition("=")[::2] for word in argv if word.startswith("--"))
        if words["rw"] == "write":
            self.owner.path(words["filename"]).write_bytes(b"x")
        self.owner.path(words["output"]).write_text(self.report)
        return Result(argv, self.code, "", "it broke" if self.code else "")


def suite(owner: Owner, what: StorageJob, fio: Programs, **options: Any) -> StorageSuite:
    options.setdefault("extent", lambda path: (4096, 8 * MIB))
    return StorageSuite(owner.host, what, options.pop("gate", Meetings()), fio, **options)


def writes(argv: list[str]) -> bool:
    return "--readonly" not in argv


def test_a_file_of_ours_is_read_and_then_gone(owner: Owner) -> None:
    fio = Fio(owner)
    state = suite(
        owner, job(take("layout", Point(MIB, 8)), take("namespace", Point(MIB, 1), Point(MIB, 32))), fio
    ).run()
    layout, *reads = (item.argv for item in fio.started)
    assert writes(layout)
    assert f"--filename={MOUNT}/{FOLDER}/{TARGET.uuid}" in layout
    assert not any(writes(argv) for argv in reads)
    assert [run["queue_depth"] for run in state["runs"]] == [8, 1, 32]
    assert all(run["problem"] == "" for run in state["runs"])
    assert not owner.ours.exists()
    assert (owner.files() / ".g35-owner.json").exists()


def test_the_file_takes_no_more_than_half_of_what_the_store_leaves(owner: Owner) -> None:
    fio = Fio(owner)
    suite(owner, job(take("layout")), fio).run()
    assert f"--size={20 * MIB}" in fio.started[0].argv
    fio = Fio(owner)
    suite(owner, job(take("layout"), file_size=2 * MIB), fio).run()
    assert f"--size={2 * MIB}" in fio.started[0].argv


@pytest.mark.parametrize("error", [GateLost("gone"), Stopped("asked"), KeyboardInterrupt()])
def test_the_file_is_removed_whatever_happens(owner: Owner, error: BaseException) -> None:
    class Later(Meetings):
        def meet(self, name: str, payload: dict[str, Any] | None = None, seconds: float = 0.0) -> dict[str, Any]:
            if name == "namespace":
                assert owner.ours.exists()
                raise error
            return super().meet(name, payload, seconds)

    with pytest.raises(type(error)):
        suite(owner, job(take("layout"), take("namespace")), Fio(owner), gate=Later()).run()
    assert not owner.ours.exists()


def elsewhere(owner: Owner) -> None:
    owner.path("/proc/self/mountinfo").write_text("")


def another(owner: Owner) -> None:
    owner.marker("gpu9")


def unmarked(owner: Owner) -> None:
    (owner.files() / ".g35-owner.json").unlink()


@pytest.mark.parametrize(
    ("break_it", "told"),
    [(elsewhere, "is not mounted at"), (another, "not marked as this host's"), (unmarked, "not marked as this host's")],
)
def test_nothing_is_written_where_the_namespace_is_not_ours(
    owner: Owner, break_it: Callable[[Owner], None], told: str
) -> None:
    break_it(owner)
    fio = Fio(owner)
    state = suite(owner, job(take("layout"), take("namespace")), fio).run()
    assert fio.started == []
    assert told in state["runs"][0]["problem"]
    assert not owner.ours.exists()


def test_writing_happens_only_in_the_round_of_named_namespaces(owner: Owner) -> None:
    fio = Fio(owner)
    rounds = [take(test) for test in ("layout", "namespace", "remote", "aggregate")]
    suite(owner, job(*rounds, take("write", Point(MIB, 32, "randwrite"))), fio).run()
    assert [writes(item.argv) for item in fio.started] == [True, False, False, True]
    assert f"--filename={MOUNT}/{FOLDER}/{TARGET.uuid}" in fio.started[-1].argv


def test_a_device_that_is_none_is_not_measured(owner: Owner) -> None:
    """fio would make a regular file of it, and measure that."""
    fio = Fio(owner)
    state = suite(owner, job(take("layout"), take("remote")), fio).run()
    assert "is not a block device" in state["runs"][1]["problem"]
    assert len(fio.started) == 1


def test_owner_and_box_read_the_same_blocks(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageSuite, "_block_device", lambda self, path: path)
    fio = Fio(owner)
    suite(owner, job(take("layout"), take("remote", Point(4096, 1))), fio).run()
    assert fio.started[1].argv[-3:] == ["--filename=/dev/nvme0n1", "--offset=4096", f"--size={8 * MIB}"]
    assert not writes(fio.started[1].argv)
    box = Fio(owner)
    others = Meetings({"gpu1": {"extents": {TARGET.uuid: [4096, 8 * MIB]}}})
    suite(owner, job(take("local", Point(4096, 1)), host="ebof1"), box, gate=others).run()
    assert box.started[0].argv[-3:] == ["--filename=/dev/ssd0", "--offset=4096", f"--size={8 * MIB}"]
    assert not writes(box.started[0].argv)


def test_a_run_that_failed_says_what_fio_said(owner: Owner) -> None:
    fio = Fio(owner, 1, "fio: io_setup failed\n" + '{"jobs": []}')
    state = suite(owner, job(take("layout")), fio).run()
    assert "io_setup failed" in state["runs"][0]["problem"]
    failed = Fio(owner, 0, json.dumps({"jobs": [{"error": 5}]}))
    assert suite(owner, job(take("layout")), failed).run()["runs"][0]["problem"] == "fio reports error 5"
    cut = Fio(owner, 0, '{"jobs": [')
    assert "no result" in suite(owner, job(take("layout")), cut).run()["runs"][0]["problem"]


def test_what_fio_says_before_its_report_is_no_error(owner: Owner) -> None:
    fio = Fio(owner, 0, "data: Laying out IO file (1 file / 8MiB)\n" + json.dumps({"jobs": [{"error": 0}]}, indent=1))
    assert suite(owner, job(take("layout")), fio).run()["runs"][0]["problem"] == ""


def test_raw_mode_reads_the_device_only(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StorageSuite, "_block_device", lambda self, path: path)
    fio = Fio(owner)
    suite(owner, job(take("namespace"), take("remote"), raw=True), fio).run()
    assert "--filename=/dev/nvme0n1" in fio.started[0].argv
    assert fio.started[1].argv[-2:] == ["--offset=0", f"--size={40 * MIB}"]
    assert not any(writes(item.argv) for item in fio.started)


def test_where_a_file_lies_is_asked_of_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(2 * MIB))
    try:
        offset, length = first_extent(str(path))
    except OSError as error:
        pytest.skip(f"this file system does not tell: {error}")
    assert offset > 0
    assert length % MIB == 0
