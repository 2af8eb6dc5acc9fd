"""The lab of containers as one object: hosts with systemd at native speed, for the serving stage with a real engine.

lab = ContainerLab("serving")
lab.up()
lab.ssh("gpu1", ["systemctl", "--failed"])
lab.down()

What a container cannot do (NVMe, RDMA, DCB) its inventory does not ask for: flash is a local directory.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from g35ctl.content import content_root, is_checkout
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.lab import inventory, prerequisites, remote
from g35ctl.lab.commands import Say, locked, run
from g35ctl.lab.container_forward import Forward
from g35ctl.lab.container_image import ContainerImage, ensure_environment, ensure_image
from g35ctl.lab.container_model import make_model
from g35ctl.lab.container_network import ContainerNetwork
from g35ctl.lab.container_topology import ENVIRONMENT, FLASH, MODEL, NAME, serving_topology
from g35ctl.lab.network import Network
from g35ctl.lab.paths import LabPaths, lab_paths
from g35ctl.lab.status import GuestStatus, LabStatus
from g35ctl.lab.topology import GuestSpec

FIRST_PORT = 23100
KIND = "container"


def was_container_lab(name: str) -> bool:
    """True when a lab of containers was brought up under that name."""
    with suppress(OSError):
        return (lab_paths(name).root / "kind").read_text().strip() == KIND
    return False


def _talk(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class ContainerLab:
    """One lab. Its state lives in ``state_dir``; ``say`` receives progress, one line at a time (default: stderr)."""

    def __init__(
        self,
        name: str = NAME,
        *,
        state_dir: Path | None = None,
        inventory_dir: Path | None = None,
        say: Say = _talk,
    ) -> None:
        self.paths = LabPaths(state_dir.resolve()) if state_dir else lab_paths(name)
        self.topology = serving_topology(name)
        self.network = ContainerNetwork(self.topology, Network(self.paths.network_namespace, self.topology.rails))
        self._inventory_dir = inventory_dir
        self.say = say

    @property
    def inventory_path(self) -> Path:
        """The inventory directory ``up`` completes: the one asked for, else that of this checkout, else
        ``./g35-serving``."""
        if self._inventory_dir:
            return self._inventory_dir.resolve()
        return content_root() / "inventories" / "serving" if is_checkout() else Path.cwd() / "g35-serving"

    def container(self, guest: str) -> str:
        """Name of a guest's container."""
        return f"{self.paths.network_namespace}-{guest}"

    def up(self, *, install_prerequisites: bool = False, wait_seconds: float = 120.0) -> LabStatus:
        """Have every guest running and reachable, and the inventory written. Does nothing for those that are.

        Raises :class:`G35Error` for missing prerequisites (exit 4), a build or start that fails (exit 1), or guests
        that cannot be logged into (exit 5).
        """
        prerequisites.require(self.say, install=install_prerequisites, containers=True)
        with locked(self.paths.lock, what=f"lab {self.topology.name}"):
            image = ensure_image(self.say)
            environment = ensure_environment(self.say)
            self._prepare_state()
            if make_model(self.paths.root / "model"):
                self.say(f"made a model with random weights in {self.paths.root / 'model'}")
            self.network.ensure()
            for guest in self.topology.guests:
                if not self.running(guest.name):
                    self._start(guest, image, environment)
            self._forward()
            self._write_inventory()
            self._wait(wait_seconds)
        return self.status()

    def down(self, *, purge: bool = False) -> None:
        """Stop every guest and remove the network; ``purge`` also deletes containers, flash, keys and the model.
        Ends nothing else."""
        with locked(self.paths.lock, what=f"lab {self.topology.name}"):
            self._end_forward()
            for guest in self.topology.guests:
                name = self.container(guest.name)
                if self.running(guest.name):
                    run(["podman", "stop", "--time", "20", name], what=f"stopping {guest.name}", timeout=90)
                    self.say(f"{guest.name}: off")
                if purge:
                    run(["podman", "rm", "--force", "--ignore", name], what=f"removing {guest.name}", timeout=90)
            self.network.remove()
            if purge:
                for path in self.paths.root.iterdir():
                    if path != self.paths.lock:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                self.say(f"deleted the containers, and what they kept in {self.paths.root}")

    def status(self) -> LabStatus:
        """Look at containers, network and logins; changes nothing."""
        reachable = [guest for guest in self.topology.guests if self.running(guest.name)]
        boots = remote.boot_ids(self.paths, reachable, timeout=20.0)
        guests = tuple(
            GuestStatus(
                name=guest.name,
                running=guest in reachable,
                pid=self._pid(guest.name) if guest in reachable else None,
                port=remote.read_port(self.paths, guest) if self.paths.guest(guest.name).port.exists() else None,
                login=boots.get(guest.name) is not None,
                suite=guest.suite,
                addresses=tuple(self.topology.interface(guest, rail) for rail in self.topology.rails),
                rails_cut=(),
                console=f"podman logs {self.container(guest.name)}",
            )
            for guest in self.topology.guests
        )
        namespace = self.network.switch
        written = (self.inventory_path / inventory.GENERATED).exists()
        return LabStatus(
            schema_version=1,
            name=self.topology.name,
            ok=all(guest.login for guest in guests),
            namespace=namespace.namespace if namespace.exists() else None,
            inventory=str(self.inventory_path) if written else None,
            state=str(self.paths.root),
            guests=guests,
        )

    def ssh(
        self, guest: str, argv: Sequence[str], *, timeout: float = 120.0, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root on a guest and return its outcome, exit code 255 when ssh itself failed."""
        return remote.ssh(self.paths, self.topology.guest(guest), argv, timeout=timeout, stdin=stdin)

    def ssh_argv(self, guest: str, argv: Sequence[str] = (), *, terminal: bool = False) -> list[str]:
        """The ssh command line for a guest, for callers that hand their own terminal over."""
        return remote.ssh_argv(self.paths, self.topology.guest(guest), argv, terminal=terminal)

    def running(self, guest: str) -> bool:
        """True when the guest's container runs."""
        return self._pid(guest) is not None

    # -- containers ----------------------------------------------------------------------------------------------

    def _pid(self, guest: str) -> int | None:
        argv = ["podman", "inspect", "--format", "{{.State.Running}} {{.State.Pid}}", self.container(guest)]
        try:
            done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return None
        words = done.stdout.split()
        return int(words[1]) if done.returncode == 0 and words[:1] == ["true"] else None

    def _start(self, guest: GuestSpec, image: ContainerImage, environment: Path) -> None:
        name = self.container(guest.name)
        argv = self.run_argv(guest, image, environment)
        known = run(["podman", "ps", "--all", "--format", "{{.Names}}"], what="listing containers", timeout=30).split()
        recorded = self.paths.guest(guest.name).image_id
        if name in known:
            if recorded.exists() and recorded.read_text() != json.dumps(argv):
                self.say(f"{guest.name}: keeps its older image or settings; g35ctl lab down --purge renews it")
            run(["podman", "start", name], what=f"starting {guest.name}", timeout=90)
        else:
            run(argv, what=f"starting {guest.name}", timeout=90)
            recorded.write_text(json.dumps(argv))
        self.say(f"{guest.name}: started")

    def run_argv(self, guest: GuestSpec, image: ContainerImage, environment: Path) -> list[str]:
        """The podman command line of a guest. Nothing of the controller's is mounted on a directory that systemd
        inside would empty (/tmp), and nothing but the flash directory can be written to."""
        files = self.paths.guest(guest.name)
        mounts = {
            f"{self.paths.user_key}.pub": "/root/.ssh/authorized_keys:ro",
            str(files.host_key): "/etc/ssh/ssh_host_ed25519_key:ro",
            f"{files.host_key}.pub": "/etc/ssh/ssh_host_ed25519_key.pub:ro",
            str(files.root / "flash"): f"{FLASH}:rw",
            str(environment): f"{ENVIRONMENT}:ro",
            str(self.paths.root / "model"): f"{MODEL}:ro",
        }
        argv = ["podman", "run", "--detach", "--name", self.container(guest.name), "--runtime", "runc"]
        argv += ["--systemd=always", "--privileged", "--hostname", guest.name, "--no-hosts"]
        argv += ["--network", f"ns:/run/netns/{self.network.namespace(guest)}", "--shm-size", "512m"]
        # The defaults are above what a controller without CAP_SYS_RESOURCE may grant.
        argv += ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]
        for source, target in mounts.items():
            argv += ["--volume", f"{source}:{target}"]
        return [*argv, image.name]

    # -- state ---------------------------------------------------------------------------------------------------

    def _prepare_state(self) -> None:
        self.paths.root.mkdir(parents=True, exist_ok=True)
        self.paths.root.chmod(0o700)
        (self.paths.root / "kind").write_text(KIND + "\n")
        remote.ensure_key(self.paths.user_key, f"g35ctl lab {self.topology.name}")
        taken = set[int]()
        for guest in self.topology.guests:
            files = self.paths.guest(guest.name)
            (files.root / "flash").mkdir(parents=True, exist_ok=True)
            remote.ensure_key(files.host_key, guest.name)
            if not files.port.exists() or remote.read_port(self.paths, guest) in taken:
                files.port.write_text(f"{self._free_port(taken)}\n")
            taken.add(remote.read_port(self.paths, guest))

    @staticmethod
    def _free_port(taken: set[int]) -> int:
        from g35ctl.lab.vmlab import free_port

        for port in range(FIRST_PORT, FIRST_PORT + 500):
            if port not in taken and free_port(port):
                return port
        raise G35Error("no free port for ssh", why=f"{FIRST_PORT} and up on 127.0.0.1 are all taken")

    def _write_inventory(self) -> None:
        directory = self.inventory_path
        inventory.prepare(directory, "serving")
        self.paths.known_hosts.write_text(remote.known_hosts(self.topology, self.paths))
        if inventory.write(self.topology, self.paths, directory):
            self.say(f"inventory: {directory}")

    def _wait(self, seconds: float) -> None:
        began = time.monotonic()
        waiting = list(self.topology.guests)
        while waiting:
            answers = remote.boot_ids(self.paths, waiting, timeout=remote.LOGIN_SECONDS)
            waiting = [guest for guest in waiting if answers[guest.name] is None]
            if waiting and time.monotonic() - began > seconds:
                names = [guest.name for guest in waiting]
                raise G35Error(
                    f"no login on {', '.join(names)} within {seconds:g} s",
                    why="sshd does not answer; the container's own words tell more",
                    next_command="; ".join(f"podman logs --tail 20 {self.container(name)}" for name in names),
                    exit_code=Exit.UNREACHABLE,
                )
            time.sleep(0.3 if waiting else 0)
        self.say(f"ssh answers on every guest after {time.monotonic() - began:.0f} s")

    # -- the way in ----------------------------------------------------------------------------------------------

    def _forward(self) -> None:
        """Have the forwarder of this lab running, for these ports."""
        words = [
            Forward(
                remote.read_port(self.paths, guest), Path("/run/netns", self.network.namespace(guest)), "127.0.0.1", 22
            ).word()
            for guest in self.topology.guests
        ]
        pid = self._forwarder()
        if pid is not None and _words(pid)[-len(words) :] == words:
            return
        self._end_forward()
        with (self.paths.root / "forward.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "g35ctl.lab.container_forward", *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/",
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            )  # fmt: skip
        (self.paths.root / "forward.pid").write_text(f"{process.pid}\n")

    def _forwarder(self) -> int | None:
        """Process id of this lab's forwarder while it runs; never that of somebody else who got its number."""
        try:
            pid = int((self.paths.root / "forward.pid").read_text())
        except (OSError, ValueError):
            return None
        return pid if "g35ctl.lab.container_forward" in _words(pid) else None

    def _end_forward(self) -> None:
        pid = self._forwarder()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + 5
            while _words(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
        (self.paths.root / "forward.pid").unlink(missing_ok=True)


def _words(pid: int) -> list[str]:
    """The command line of a process; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []
