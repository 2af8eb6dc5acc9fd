"""Files and units: a unit always runs on the files that are there, however the apply before was cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible.module_utils.g35.converge import Change
from ansible.module_utils.g35.host import Host, Result
from ansible.module_utils.g35.managed import file_changes, unit_changes
from ansible.module_utils.g35.plans import File, Unit

ENV = "/etc/g35ctl/store.env"
UNITS = (Unit("a.service", restart_on=(ENV,)), Unit("b.service", restart_on=(ENV,)))


@dataclass
class Systemd:
    """Units and the contents of their file as they were when each was started."""

    root: Path
    running: dict[str, str] = field(default_factory=dict)
    restarts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = Host(str(self.root), self.answer)

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        verb, name = argv[1], argv[-1]
        if verb == "show":
            names = argv[argv.index("--") + 1 :]
            blocks = (
                f"Id={item}\nActiveState={'active' if item in self.running else 'inactive'}\nUnitFileState=enabled\n"
                for item in names
            )
            return Result(argv, 0, "\n".join(blocks), "")
        if verb == "restart":
            self.restarts.append(name)
            self.running[name] = self.host.read(ENV) or ""
        return Result(argv, 0, "", "")

    def changes(self, content: str) -> list[Change]:
        files = file_changes(self.host, [File(ENV, content)])
        return files + unit_changes(self.host, UNITS, [change.what for change in files])

    def apply(self, content: str, *, cut_off_after: int = 99) -> None:
        for change in self.changes(content)[:cut_off_after]:
            change.do()


def test_an_apply_that_was_cut_off_before_the_restart_is_made_good(tmp_path: Path) -> None:
    systemd = Systemd(tmp_path)
    systemd.apply("old")
    systemd.apply("new", cut_off_after=1)
    assert set(systemd.running.values()) == {"old"}
    assert [change.after for change in systemd.changes("new")] == ["restarted", "restarted"]
    systemd.apply("new")
    assert set(systemd.running.values()) == {"new"}
    assert systemd.changes("new") == []


def test_one_that_was_cut_off_between_two_restarts_restarts_only_the_second(tmp_path: Path) -> None:
    systemd = Systemd(tmp_path)
    systemd.apply("old")
    systemd.apply("new", cut_off_after=2)
    systemd.restarts.clear()
    systemd.apply("new")
    assert systemd.restarts == ["b.service"]
    assert set(systemd.running.values()) == {"new"}


def test_going_back_to_what_a_unit_runs_on_needs_no_restart_after_a_cut_off(tmp_path: Path) -> None:
    systemd = Systemd(tmp_path)
    systemd.apply("old")
    systemd.apply("new", cut_off_after=1)
    file_changes(systemd.host, [File(ENV, "old")])[0].do()
    assert systemd.changes("old") == []


def test_a_boot_starts_everything_anew_and_nothing_is_restarted_for_it(tmp_path: Path) -> None:
    systemd = Systemd(tmp_path)
    systemd.apply("old")
    systemd.apply("new", cut_off_after=1)
    for note in (tmp_path / "run" / "g35ctl").rglob("*"):
        if note.is_file():
            note.unlink()
    assert systemd.changes("new") == []


def test_files_of_no_unit_and_a_converged_host_cost_nothing(tmp_path: Path) -> None:
    systemd = Systemd(tmp_path)
    systemd.apply("same")
    systemd.restarts.clear()
    systemd.apply("same")
    assert systemd.restarts == []
