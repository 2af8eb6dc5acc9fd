"""Cold, converged, and one changed host of many: the engine against a task for each setting, on loopback ssh hosts.

    python tests/bench/deploy_scale.py [--hosts 10 --hosts 50] [--modes engine,naive-mitogen] [--json FILE]

Needs root, sshd and (for two of the modes) mitogen. Every mode starts from empty roots, and all must end in the same
trees. Figures are for comparison within one run on one machine; docs/bench.md says what they mean and what not.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml
from loopback import Fleet, fleet
from settings import DIRECTORIES, settings

import g35ctl
from g35ctl.engine import environment, folder
from g35ctl.engine.runner import Play, Played, run_play

HERE = Path(__file__).resolve().parent
CONTENT = HERE / "content"
MODES = ("engine", "engine-mitogen", "naive-mitogen", "naive-pipelining", "naive-core")
SCENARIOS = ("cold", "converged", "one changed")


@dataclass(frozen=True)
class Figure:
    """One measurement: seconds of wall clock and of the controller's processors, and counts over all hosts."""

    hosts: int
    mode: str
    scenario: str
    wall: float
    controller_cpu: float
    executions: int
    sessions: int
    changed: int


@dataclass(frozen=True)
class Done:
    executions: int
    changed: int


class Engine:
    """The life of a g35ctl deploy, with the bench's stage in place of those that need a kernel: what is known is read
    back in one execution, and only what does not hold is applied."""

    def __init__(self, hosts: Fleet, accelerate: str) -> None:
        self.hosts, self.accelerate = hosts, accelerate
        self.known: set[str] = set()

    def deploy(self) -> Done:
        plays = []
        pending = [name for name in self.hosts.names if name not in self.known]
        known = [name for name in self.hosts.names if name in self.known]
        if known:
            read = self._play("verify", known)
            plays.append(read)
            pending += [event.host for event in read.events if event.findings]
        if pending:
            applied = self._play("apply", pending)
            plays.append(applied)
            self.known |= {host for host, how in applied.outcomes.items() if how in ("ok", "changed")}
        return Done(sum(sum(play.executions.values()) for play in plays), sum(play.changed_tasks for play in plays))

    def _play(self, action: str, names: Sequence[str]) -> Played:
        run = folder.create(self.hosts.folder / "state", "bench")
        play = Play(action, str(CONTENT / "converge.yml"), tuple(names), variables={"bench_action": action})
        played = run_play(
            play, run, self.hosts.folder / "state", str(self.hosts.folder / "inventory.yml"), lambda _: None,
            accelerate=self.accelerate,
        )  # fmt: skip
        if played.code != 0:
            raise SystemExit("\n".join([*played.talk, *(event.message for event in played.events)])[-3000:])
        return played


class Naive:
    """A playbook with a task for each setting, as role collections have them."""

    def __init__(self, hosts: Fleet, how: str) -> None:
        self.hosts = hosts
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(g35ctl.__file__).resolve().parent.parent),
            "HOME": str(hosts.folder),
            "LANG": "C.UTF-8",
            "ANSIBLE_CONFIG": str(hosts.folder / "bench.cfg"),
            "ANSIBLE_FORKS": str(min(environment.MOST_FORKS, len(hosts.names))),
            "ANSIBLE_CALLBACK_PLUGINS": str(CONTENT / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "bench_count",
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
            "ANSIBLE_NOCOLOR": "1",
            "G35_PLAN_FILE": "none",
            "BENCH_COUNT": str(hosts.folder / "count.json"),
        }
        if how == "pipelining":
            self.environment["ANSIBLE_PIPELINING"] = "True"
        elif how == "mitogen":
            self.environment["ANSIBLE_STRATEGY"] = "mitogen_linear"
            self.environment["ANSIBLE_STRATEGY_PLUGINS"] = str(environment.mitogen_strategies())

    def deploy(self) -> Done:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        argv = [program, "-i", str(self.hosts.folder / "inventory.yml"), str(self.hosts.folder / "naive.yml")]
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"the plain playbook failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        counted = json.loads((self.hosts.folder / "count.json").read_text())
        return Done(counted["executions"], counted["changed"])


def naive_playbook() -> list[dict]:
    """One task for each directory, file and attribute; attributes are read first and written when they differ."""
    tasks: list[dict] = [
        {
            "name": f"Make {path}",
            "ansible.builtin.file": {"path": f"{{{{ bench_root }}}}/{path}", "state": "directory", "mode": "0755"},
        }
        for path in DIRECTORIES
    ]
    for path in settings("x")["files"]:
        content = f"{{{{ bench_settings.files['{path}'] }}}}"
        tasks.append(
            {"name": f"Write {path}",
             "ansible.builtin.copy": {"dest": f"{{{{ bench_root }}}}/{path}", "content": content, "mode": "0644"}}
        )  # fmt: skip
    for number, (path, value) in enumerate(settings("x")["attributes"].items()):
        place = f"{{{{ bench_root }}}}/{path}"
        tasks += [
            {"name": f"Read {path}", "ansible.builtin.command": {"argv": ["cat", place]}, "register": f"bench_{number}",
             "changed_when": False, "failed_when": False},
            {"name": f"Set {path}", "ansible.builtin.shell": f"printf %s '{value}' > '{place}'",
             "when": f"bench_{number}.stdout != '{value}'"},
        ]  # fmt: skip
    return [{"name": "Bring every host to its settings", "hosts": "all", "gather_facts": True, "tasks": tasks}]


def trees(hosts: Fleet) -> str:
    """Digest of what all hosts hold in etc and sys."""
    summary = hashlib.sha256()
    for name in hosts.names:
        for path in sorted(hosts.root(name).rglob("*")):
            relative = path.relative_to(hosts.root(name))
            if path.is_file() and relative.parts[0] in ("etc", "sys"):
                summary.update(f"{name} {relative}\0".encode() + path.read_bytes())
    return summary.hexdigest()


def measured(hosts: Fleet, mode: str, scenario: str, work: Callable[[], Done]) -> Figure:
    def spent() -> float:
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime

    sessions, cpu, began = hosts.sessions(), spent(), time.monotonic()
    done = work()
    wall = time.monotonic() - began
    return Figure(
        len(hosts.names), mode, scenario, round(wall, 2), round(spent() - cpu, 2), done.executions,
        hosts.sessions() - sessions, done.changed,
    )  # fmt: skip


def bench(count: int, modes: Sequence[str], told: Callable[[Figure], None]) -> list[Figure]:
    figures: list[Figure] = []
    ends: dict[str, str] = {}
    for mode in modes:
        scratch = tempfile.TemporaryDirectory(prefix="g35-bench-", ignore_cleanup_errors=True)
        with scratch as temporary, fleet(Path(temporary), count) as hosts:
            listed = {name: {**hosts.variables(name), "bench_settings": settings(name)} for name in hosts.names}
            (hosts.folder / "inventory.yml").write_text(yaml.safe_dump({"all": {"hosts": listed}}))
            (hosts.folder / "bench.cfg").write_text("[defaults]\n")  # no settings of the machine's or the user's
            (hosts.folder / "naive.yml").write_text(yaml.safe_dump(naive_playbook(), sort_keys=False))
            for name in hosts.names:
                hosts.root(name).mkdir(parents=True)
            how, _, way = mode.partition("-")
            side = Engine(hosts, way) if how == "engine" else Naive(hosts, way)
            for scenario in SCENARIOS:
                if scenario == "one changed":
                    (hosts.root(hosts.names[count // 2]) / "etc/sysctl.d/60-vm.swappiness.conf").write_text("drifted\n")
                figure = measured(hosts, mode, scenario, side.deploy)
                figures.append(figure)
                told(figure)
            ends[mode] = trees(hosts)
    if len(set(ends.values())) > 1:
        raise SystemExit(f"the modes did not end in the same state: {ends}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, action="append")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    print(
        "| hosts | mode | scenario | wall s | controller CPU s per host | executions per host | ssh sessions per host |"
    )
    print("|---|---|---|---|---|---|---|")

    def told(item: Figure) -> None:
        each = [round(value / item.hosts, 2) for value in (item.controller_cpu, item.executions, item.sessions)]
        print(
            f"| {item.hosts} | {item.mode} | {item.scenario} | {item.wall} | {' | '.join(map(str, each))} |", flush=True
        )

    figures = [figure for count in asked.hosts or [10] for figure in bench(count, asked.modes.split(","), told)]
    if asked.json:
        asked.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")


if __name__ == "__main__":
    main()
