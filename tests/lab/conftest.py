"""A lab of its own for the end-to-end tests: made anew, taken down at the end, apart from a lab that someone is using.

The tests run in file order and build on each other: a fresh tier, a converged one, faults, reboots.
``G35_TEST_LAB_KEEP=1`` keeps a running test lab before and after, for work on a single file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from g35ctl.lab import VmLab

CHECKOUT = Path(__file__).resolve().parents[2]
BOOKS = CHECKOUT / "tests" / "lab" / "playbooks"
KEEP = os.environ.get("G35_TEST_LAB_KEEP") == "1"
GUESTS = ("ebof1", "gpu1", "gpu2")
OWNERS = ("gpu1", "gpu2")


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell a failure when it happens: these runs take hours, and one that is cut off would take its reasons along."""
    if report.failed:
        print(f"\n{report.nodeid} ({report.when}):\n{report.longreprtext}", file=sys.__stderr__, flush=True)


@dataclass(frozen=True)
class Done:
    """What one g35ctl command did; ``data`` is its JSON object (the last line for -o jsonl)."""

    code: int
    data: dict[str, Any]
    out: str
    err: str

    def failures(self) -> str:
        """All failures as text, to search in and to show when an assertion fails."""
        return json.dumps(self.data.get("failures", []), indent=1) + self.err[-3000:]


@dataclass
class Tier:
    """The lab and the command line under test."""

    lab: VmLab
    inventory: Path
    log: list[str] = field(default_factory=list)
    #: a test left the tier deployed and read back; the next one that needs it so may save itself the deploy
    green: bool = False

    def argv(self, *words: str, output: str = "json") -> list[str]:
        return [sys.executable, "-m", "g35ctl.cli.main", "-i", str(self.inventory), "-o", output, *words]

    def g35(self, *words: str, timeout: float = 1500) -> Done:
        """Run a verb with -o json."""
        done = subprocess.run(
            self.argv(*words), cwd=CHECKOUT, capture_output=True, text=True, timeout=timeout, check=False
        )
        self.log.append(f"{' '.join(words)} -> {done.returncode}")
        try:
            data = json.loads(done.stdout)
        except ValueError:
            data = {}
        return Done(done.returncode, data, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a verb with -o jsonl, to be watched and interrupted."""
        return subprocess.Popen(
            self.argv(*words, output="jsonl"), cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ssh(self, guest: str, *argv: str, check: bool = True) -> str:
        """Run a command on a guest and return what it printed."""
        done = self.lab.ssh(guest, list(argv))
        if check:
            assert done.returncode == 0, f"{guest}: {' '.join(argv)}: {done.stderr}"
        return done.stdout

    def read(self, guest: str, path: str) -> str:
        return self.ssh(guest, "cat", path).strip()

    def link_flaps(self) -> dict[str, str]:
        """How often each guest's DCB module has taken a link down."""
        return {guest: self.read(guest, "/sys/module/g35dcb/parameters/link_flaps") for guest in GUESTS}

    def live_paths(self, guest: str) -> int:
        """Live NVMe-oF controllers of a guest, from sysfs."""
        found = self.ssh(
            guest, "grep", "-lx", "live", "-r", "--include=state", "/sys/class/nvme-fabrics/ctl/", check=False
        )
        return len(found.splitlines())

    def owners(self) -> dict[str, str]:
        """The owner of each namespace on record, by UUID."""
        return dict(json.loads((self.inventory / ".g35" / "ownership.json").read_text())["namespaces"])

    def play(self, book: str, *words: str) -> None:
        """A playbook of the lab tests, which must succeed."""
        done = self.playbook(str(BOOKS / book), *words)
        assert done.returncode == 0, done.stdout[-3000:]

    def playbook(self, *words: str, timeout: float = 1500) -> subprocess.CompletedProcess[str]:
        """Plain ansible-playbook from the checkout: the other door."""
        argv = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(self.inventory), *words]
        return subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, timeout=timeout, check=False)


def until_stage(process: subprocess.Popen[str], stage: str) -> None:
    """Read a jsonl run until a stage has started."""
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event.get("event") == "stage_started" and event.get("stage") == stage:
            return
    pytest.fail(f"the run ended before stage {stage}: {process.stderr.read() if process.stderr else ''}")


@pytest.fixture(scope="session")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    """A booted lab that nothing was deployed on yet (unless G35_TEST_LAB_KEEP=1)."""
    where = CHECKOUT / ".lab-test" if KEEP else tmp_path_factory.mktemp("lab")
    lab = VmLab("test", inventory_dir=where / "inventory")
    if not KEEP:
        lab.down(purge=True)
    lab.up(install_prerequisites=True)
    made = Tier(lab, where / "inventory")
    bundle = made.g35("bundle", "create")
    assert bundle.code == 0, bundle.err
    yield made
    if not KEEP:
        lab.down(purge=True)


@pytest.fixture
def converged(tier: Tier) -> Tier:
    """The tier with a deployment that holds (cheap when it already does)."""
    done = tier.g35("deploy", "--allow-disruptive", "--yes")
    assert done.code == 0, done.failures()
    return tier
