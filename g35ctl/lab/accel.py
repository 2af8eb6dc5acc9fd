"""Finds out whether KVM really works here. The device node proves nothing: some machines have one that cannot boot."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import asdict
from pathlib import Path

from g35ctl.lab.commands import Say, run
from g35ctl.lab.image import Image
from g35ctl.lab.paths import images_root
from g35ctl.lab.qemu import BINARY, Accelerator

EMULATION = Accelerator("tcg,thread=multi,tb-size=256", "max,svm=off", "")
HARDWARE = Accelerator("kvm", "host", "a guest kernel reached user space under KVM")
FIRST_LINE_SECONDS = 6.0
USER_SPACE_SECONDS = 20.0
PROBE_ARGUMENT = "g35lab.probe"
PROBE_ANSWER = b"g35lab: probe reached user space"


def choose(image: Image, say: Say, *, kvm: Path = Path("/dev/kvm")) -> Accelerator:
    """KVM if a guest kernel boots under it on this machine, else emulation. The answer is kept."""
    if not os.access(kvm, os.R_OK | os.W_OK):
        return _emulation(f"{kvm} is missing or not accessible")
    cache = images_root() / "accelerator.json"
    key = _machine_key(kvm)
    try:
        kept = json.loads(cache.read_text())
        if kept.pop("key") == key:
            return Accelerator(**kept)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    say("probing KVM by booting the guest kernel")
    answer = _probe(image)
    part = cache.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({"key": key, **asdict(answer)}) + "\n")
    part.rename(cache)
    say(f"accelerator: {answer.accel.partition(',')[0]} ({answer.reason})")
    return answer


def _emulation(reason: str) -> Accelerator:
    return Accelerator(EMULATION.accel, EMULATION.cpu, reason)


def _machine_key(kvm: Path) -> str:
    status = kvm.stat()
    version = run([BINARY, "--version"], what="asking QEMU for its version").partition("\n")[0]
    return f"{os.uname().release} {version} {status.st_rdev} {status.st_ino} {_cpu_model()}"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def _probe(image: Image) -> Accelerator:
    argv = [BINARY, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35", "-m", "256M"]
    argv += ["-accel", HARDWARE.accel, "-cpu", HARDWARE.cpu, "-serial", "stdio"]
    argv += ["-kernel", str(image.kernel), "-initrd", str(image.initrd)]
    argv += ["-append", f"console=ttyS0 earlyprintk=ttyS0 panic=-1 {PROBE_ARGUMENT}"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        try:
            return judge_probe(process.stdout.fileno(), process)
        finally:
            process.kill()


def judge_probe(output: int, process: subprocess.Popen[bytes]) -> Accelerator:
    """Read the probe's console from a non-blocking descriptor until it proves KVM or its time is up."""
    began = time.monotonic()
    seen = b""
    while True:
        ended = process.poll() is not None
        try:
            while chunk := os.read(output, 65536):
                seen += chunk
        except BlockingIOError:
            pass
        spent = time.monotonic() - began
        if PROBE_ANSWER in seen:
            return HARDWARE
        if ended:
            last = seen.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
            return _emulation(f"KVM is there but QEMU ended: {last[0][:120]}")
        if b"Linux version" not in seen and spent > FIRST_LINE_SECONDS:
            return _emulation(f"KVM is there but no kernel line came within {FIRST_LINE_SECONDS:g} s")
        if spent > USER_SPACE_SECONDS:
            return _emulation(f"KVM is there but the kernel did not reach user space within {USER_SPACE_SECONDS:g} s")
        time.sleep(0.1)
