"""TLS for NVMe/TCP: keys as the specification derives them, handed to both kernels, and never told."""

from __future__ import annotations

import base64
import errno
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ansible.module_utils.g35 import dhchap, nvmet, tlspsk
from ansible.module_utils.g35.connect import ConnectStage, boot_stage
from ansible.module_utils.g35.connect_tls import PSK_FILE
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.plans import ConnectPlan, TargetPlan, TlsKey
from ansible.module_utils.g35.psk_ring import read_ring
from ansible.module_utils.g35.schema import dump
from ansible.module_utils.g35.target import TargetStage
from ansible.module_utils.g35.target_psks import PSK_FILE as TARGET_PSK_FILE
from hypothesis import given
from hypothesis import strategies as st
from keyring_fake import FakeKeyring
from nvme_kernel import HOST_NQN, Kernel, connect_plan, nqn
from target_fakes import ROOT, Target, host_nqn, namespace, plan

OLD, NEW = tlspsk.generate(), tlspsk.generate()
DROP_IN = "/etc/systemd/system/tlshd.service.d/g35-nvme.conf"
#: vectors of libnvme's own test of these functions (test/psk.c)
VECTORS = (
    (
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
    ),
    (
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
        "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys"
        " QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
    ),
)


@pytest.mark.parametrize(("key", "identity"), VECTORS, ids=["sha256", "sha384"])
def test_identities_are_those_that_libnvme_derives(key: str, identity: str) -> None:
    assert not tlspsk.problem(key)
    plain, proven = tlspsk.entries(key, "nqn.psk-test-host", "nqn.psk-test-subsys")
    assert proven.identity == identity
    assert plain.identity == identity.replace("NVMe1", "NVMe0").rpartition(" ")[0]
    assert len(plain.key) == len(proven.key) == (32 if "R01" in identity else 48) and plain.key != proven.key


def test_a_key_is_derived_for_one_host_and_one_subsystem() -> None:
    seen = {
        item.key
        for host in ("nqn.a", "nqn.b")
        for subsystem in ("nqn.s", "nqn.t")
        for item in tlspsk.entries(NEW, host, subsystem)
    }
    assert len(seen) == 8
    # Hash 00 takes the key as it is: another retained key, hence other keys for the handshake.
    assert not {item.key for item in tlspsk.entries(NEW.replace(":01:", ":00:"), "nqn.a", "nqn.s")} & seen


def test_names_too_long_for_a_label_have_no_version_0() -> None:
    (only,) = tlspsk.entries(NEW, "nqn." + "h" * 200, "nqn." + "s" * 200)
    assert only.identity.startswith("NVMe1R01 ")


@given(st.binary(min_size=0, max_size=60), st.integers(0, 59))
def test_a_cut_or_mistyped_key_is_told(noise: bytes, place: int) -> None:
    assert tlspsk.problem(tlspsk.generate()) == ""
    assert tlspsk.problem(f"NVMeTLSkey-1:01:{base64.b64encode(noise).decode()}:")
    text = list(NEW)
    spot = 16 + place % 48
    text[spot] = "A" if text[spot] != "A" else "B"
    assert tlspsk.problem("".join(text))


class TlsKernel(Kernel):
    """A Linux 6.12 with NVMe/TCP over TLS. ``box`` is the key the box has for this host; empty: it wants no TLS."""

    def __init__(self, root: Path, box: str, keyring: bool = False) -> None:
        super().__init__(root)
        self.box = box
        self.ring = FakeKeyring(self.host, keyring)
        self.path("/sys/module/nvme_tcp").mkdir(parents=True)
        self.put("/usr/sbin/tlshd", "")
        self.put(
            "/dev/nvme-fabrics",
            "traddr=%s,trsvcid=%s,nqn=%s,queue_size=%d,nr_io_queues=%d,hostnqn=%s,hostid=%s,host_traddr=%s,tos=%d,tls",
        )
        self.host.exchange = self.exchange  # type: ignore[method-assign]
        self.answers["modprobe"] = self.modprobe
        self.exchanged: list[str] = []
        self.silent = False

    def modprobe(self, words: Sequence[str]) -> Result:
        if words[1] == "nvme-keyring":
            self.ring.appear()
        return Result(words, 0, "", "")

    def exchange(self, absolute: str, text: str) -> str:
        assert absolute == "/dev/nvme-fabrics" and text.endswith(",tls")
        self.exchanged.append(text)
        if self.silent:
            self.log.append("[   95.000000] nvme nvme8: queue 0: TLS handshake complete, error -110")
            raise OSError(errno.EIO, "Input/output error")
        option = dict(part.split("=", 1) for part in text.split(",")[:-1])
        with self._lock:
            if self.units.get("tlshd.service", ("", ""))[0] != "active":
                raise OSError(errno.ESRCH, "No such process")
            held = {name: key for name, (_, key) in self.ring.keys.items()}
            mine = [name for name in held if name.startswith(f"NVMe1R01 {HOST_NQN} {option['nqn']} ")]
            if not mine:
                raise OSError(errno.ENOKEY, "Required key not available")
            theirs = {item.identity: item.key for item in tlspsk.entries(self.box, HOST_NQN, option["nqn"])}
            if theirs.get(mine[0]) != held[mine[0]]:
                raise PermissionError(errno.EACCES, "Permission denied")
            name = self.add_controller(option["nqn"], option["traddr"], option["host_traddr"], transport="tcp")
            self.put(f"/sys/class/nvme/{name}/tls_key", f"{self.ring.keys[mine[0]][0]:08x}")
            return f"instance={name[4:]},cntlid=1"

    def _nvme(self, words: list[str]) -> Result:
        done = super()._nvme(words)
        for folder in self.path("/sys/class/nvme").glob("nvme*"):
            (folder / "transport").write_text("tcp\n")
        return done


def sealed(key: str) -> ConnectPlan:
    planned = plain()
    return replace(planned, tls=TlsKey(HOST_NQN, dhchap.digest(key), "/keys/gpu1.psk"))


def plain() -> ConnectPlan:
    planned = connect_plan(tos=0)
    return replace(planned, paths=tuple(replace(path, transport="tcp") for path in planned.paths))


def apply(kernel: Kernel, key: str) -> Outcome:
    return act(ConnectStage(kernel.host, sealed(key), secrets={HOST_NQN: {"psk": key}}), "apply")


def told(outcome: Outcome) -> str:
    return json.dumps(outcome.result())


def test_every_path_uses_tls_and_the_key_is_in_no_argument_no_result_and_no_state(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    outcome = apply(kernel, NEW)
    assert not outcome.failed, outcome.message
    assert len(kernel.live()) == 4 and len(kernel.ring.keys) == 4 and not kernel.ran("nvme", "connect")
    material = [NEW, NEW[16:-1], *(key.hex() for _, key in kernel.ring.keys.values())]
    shown = told(outcome) + json.dumps(kernel.commands) + "".join(kernel.exchanged)
    assert not [item for item in material if item in shown]
    assert kernel.path(PSK_FILE).stat().st_mode & 0o777 == 0o600
    again = apply(kernel, NEW)
    assert not again.changed and not again.failed, again.changes
    assert not act(ConnectStage(kernel.host, sealed(NEW)), "verify").failed


def test_the_keyring_is_there_before_the_daemon_that_takes_hold_of_it_once(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    kernel.units["tlshd.service"] = ("active", "enabled")  # as the package leaves it: started without the keyring
    assert not apply(kernel, NEW).failed
    order = [words for words in kernel.commands if words[0] in ("modprobe", "systemctl")]
    assert order.index(["modprobe", "nvme-keyring"]) < order.index(["systemctl", "restart", "tlshd.service"])
    assert "modprobe@nvme_keyring.service" in kernel.path(DROP_IN).read_text()
    kernel.commands.clear()
    apply(kernel, NEW)
    assert not kernel.ran("systemctl", "restart")


def test_a_boot_fills_the_keyring_from_the_file_and_connects(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    apply(kernel, NEW)
    for name in ("nvme0", "nvme1", "nvme2", "nvme3"):
        kernel.remove_controller(name)
    kernel.ring.keys.clear()
    kernel.ring.show()
    outcome = act(boot_stage(kernel.host, dump(sealed(NEW))), "apply")
    assert not outcome.failed, outcome.message
    assert len(kernel.live()) == 4 and len(kernel.ring.keys) == 4


def test_a_new_key_replaces_the_old_one_and_is_taken_over_one_path_at_a_time(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, OLD)
    apply(kernel, OLD)
    kernel.box = NEW
    assert {item["check"] for item in act(ConnectStage(kernel.host, sealed(NEW)), "verify").findings} >= {"connect.tls"}
    alive: list[int] = []
    nvme = kernel._nvme

    def counting(words: Sequence[str]) -> Result:
        done = nvme(list(words))
        alive.append(len(kernel.live()))
        return done

    kernel.answers["nvme"] = counting
    outcome = apply(kernel, NEW)
    assert not outcome.failed, outcome.message
    assert alive == [3, 3, 3, 3] and len(kernel.live()) == 4
    assert len(kernel.ring.keys) == 4 and len(kernel.ring.removed) == 2
    assert OLD not in told(outcome) and NEW not in told(outcome) and not apply(kernel, NEW).changed


def test_a_key_that_the_box_does_not_have_costs_one_path_and_says_why(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, OLD)
    apply(kernel, OLD)
    outcome = apply(kernel, NEW)  # the box still has the old one
    assert outcome.failed and "does not have the key" in told(outcome)
    assert len(kernel.live()) == 3
    assert apply(kernel, NEW).failed and len(kernel.live()) == 3
    healed = apply(kernel, OLD)
    assert not healed.failed and len(kernel.live()) == 4, healed.message


def test_a_wrong_key_is_refused_with_the_reason_and_what_to_do(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, OLD)
    outcome = apply(kernel, NEW)
    assert outcome.failed and kernel.live() == [] and "does not have the key" in told(outcome)
    assert any("same key" in item["remedy"] for item in outcome.findings)


def test_a_handshake_that_timed_out_is_told_as_a_failed_one(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    kernel.silent = True
    outcome = apply(kernel, NEW)
    assert outcome.failed and kernel.live() == [] and "TLS handshake failed" in told(outcome)
    assert any("same key" in item["remedy"] for item in outcome.findings)


def test_plain_controllers_are_made_anew_and_back_again(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    assert not act(ConnectStage(kernel.host, plain()), "apply").failed
    outcome = apply(kernel, NEW)
    assert not outcome.failed, outcome.message
    assert len(read_ring(kernel.host).keys) == 4
    back = act(ConnectStage(kernel.host, plain()), "apply")
    assert not back.failed, back.message
    assert len(kernel.live()) == 4 and not kernel.ring.keys
    assert not kernel.path(PSK_FILE).exists() and not kernel.path(DROP_IN).exists()
    assert not act(ConnectStage(kernel.host, plain()), "apply").changed


def test_plain_controllers_that_a_box_dropped_are_not_waited_for(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    act(ConnectStage(kernel.host, plain()), "apply")
    for name in ("nvme0", "nvme1", "nvme2", "nvme3"):
        kernel.put(f"/sys/class/nvme/{name}/state", "connecting")
    outcome = apply(kernel, NEW)
    assert not outcome.failed, outcome.message
    assert len(kernel.live()) == 4


def test_what_is_missing_is_told_before_anything_is_touched(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    kernel.path("/usr/sbin/tlshd").unlink()
    fabrics = kernel.path("/dev/nvme-fabrics")
    fabrics.write_text(fabrics.read_text().replace(",tls", ""))
    damaged = NEW[:20] + ("A" if NEW[20] != "A" else "B") + NEW[21:]
    stage = ConnectStage(kernel.host, sealed(NEW), secrets={HOST_NQN: {"psk": damaged}})
    outcome = act(stage, "apply")
    remedies = " ".join(item["remedy"] for item in outcome.findings)
    assert outcome.failed and not outcome.changed and not kernel.ring.added
    assert "ktls-utils" in remedies and "Debian 13, not Debian 12" in remedies
    assert re.search("checksum|bytes", told(outcome)) and damaged not in told(outcome)


def test_a_kernel_built_without_tls_is_named_before_its_module_is_loaded(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW)
    kernel.path("/dev/nvme-fabrics").unlink()
    kernel.put("/boot/config-6.1.0-57-amd64", "CONFIG_NVME_TCP=m\n# CONFIG_NVME_TCP_TLS is not set")
    assert "CONFIG_NVME_TCP_TLS" in told(apply(kernel, NEW))


def test_keys_of_others_in_the_keyring_stay(tmp_path: Path) -> None:
    kernel = TlsKernel(tmp_path, NEW, keyring=True)
    for host, subsystem in ((HOST_NQN, "nqn.somebody:else"), ("nqn.other-host", nqn(0))):
        for item in tlspsk.entries(OLD, host, subsystem):
            kernel.ring.add("psk", item.identity, item.key, kernel.ring.number)
    assert not apply(kernel, NEW).failed
    removed = act(ConnectStage(kernel.host, sealed(NEW)), "remove", allow_disruptive=True)
    assert not removed.failed, removed.message
    assert len(kernel.ring.keys) == 4 and not kernel.path(PSK_FILE).exists()


# The box


class TlsTarget(Target):
    """nvmet of Linux 6.12. ``order`` is what was written, linked and put into the keyring."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.order: list[str] = []
        self.clock = itertools.count().__next__  # each look at it is a second: nothing waits for ever
        self.ring = FakeKeyring(self, present=False)
        keep = self.add_key
        self.add_key = lambda *words: self.order.append("key") or keep(*words)  # type: ignore[method-assign,func-returns-value]
        self.units = {"tlshd.service": ("inactive", "disabled")}
        self.path("/usr/sbin").mkdir(parents=True)
        self.path("/usr/sbin/tlshd").write_text("")
        for number in range(2):
            self.add_device(namespace(number).device)

    def answer(self, argv: Sequence[str], stdin: str | None, timeout: float) -> Result:
        if argv[0] == "modprobe" and argv[1] == "nvme-keyring":
            self.ring.appear()
        if argv[0] == "ss" and "-Hltn" in argv:
            lines = [f"LISTEN 0 128 {item['src-addr']} 0.0.0.0:*" for item in self.listeners()]
            return Result(argv, 0, "\n".join(lines), "")
        if argv[0] == "systemctl" and argv[1] == "show":
            active, enabled = self.units["tlshd.service"]
            return Result(argv, 0, f"Id=tlshd.service\nActiveState={active}\nUnitFileState={enabled}\n", "")
        if argv[0] == "systemctl" and argv[1] in ("enable", "restart"):
            active, enabled = self.units["tlshd.service"]
            self.units["tlshd.service"] = (active, "enabled") if argv[1] == "enable" else ("active", enabled)
        return super().answer(argv, stdin, timeout)

    def make_directory(self, absolute: str) -> None:
        fresh = not self.path(absolute).exists()
        super().make_directory(absolute)
        if fresh and absolute.startswith(ROOT + "/ports/") and absolute.count("/") == ROOT.count("/") + 2:
            self.path(absolute + "/addr_tsas").write_text("none\n")
            self.path(absolute + "/addr_treq").write_text("not specified\n")

    def write_attribute(self, absolute: str, value: str) -> None:
        directory, _, name = absolute.rpartition("/")
        if name == "addr_tsas" and (self.read_value(directory + "/addr_trtype") != "tcp" or not self.ring.present):
            raise OSError(errno.EINVAL, "Invalid argument", absolute)
        if name == "addr_treq" and value == "not specified" and self.read_value(directory + "/addr_tsas") == "tls1.3":
            raise OSError(errno.EINVAL, "Invalid argument", absolute)
        super().write_attribute(absolute, value)
        self.order.append(name)

    def make_link(self, target: str, absolute: str) -> None:
        super().make_link(target, absolute)
        if absolute.startswith(f"{ROOT}/ports/"):
            self.order.append("link")


def box_plan(key: str = "") -> TargetPlan:
    planned = plan([namespace(0), namespace(1)])
    portals = tuple(replace(portal, transport="tcp", tls=bool(key)) for portal in planned.portals)
    keys = tuple(TlsKey(host_nqn(number), dhchap.digest(key), "/keys") for number in (1, 2)) if key else ()
    return replace(planned, portals=portals, tls=keys)


def box_apply(box: TlsTarget, key: str, *, boots: bool = False, consent: bool = False) -> Outcome:
    secrets = {host_nqn(number): {"psk": key} for number in (1, 2)} if key else {}
    return act(TargetStage(box, box_plan(key), boots=boots, secrets=secrets), "apply", allow_disruptive=consent)


def ports(box: TlsTarget) -> set[tuple[str, str]]:
    found = box.list(f"{ROOT}/ports")
    return {
        (box.read_value(f"{ROOT}/ports/{n}/addr_tsas") or "", box.read_value(f"{ROOT}/ports/{n}/addr_treq") or "")
        for n in found
    }


def test_the_box_has_each_hosts_key_before_a_port_that_takes_tls_only_lets_anybody_in(tmp_path: Path) -> None:
    box = TlsTarget(tmp_path)
    outcome = box_apply(box, NEW)
    assert not outcome.failed, outcome.message
    assert ports(box) == {("tls1.3", "required")}
    assert box.order.index("key") < box.order.index("addr_tsas") < box.order.index("link")
    wanted = {
        (item.identity, item.key)
        for space in box_plan(NEW).namespaces
        for name in space.allowed_hosts
        for item in tlspsk.entries(NEW, name, space.nqn)
    }
    assert {(name, key) for name, (_, key) in box.ring.keys.items()} == wanted and wanted
    assert box.path(TARGET_PSK_FILE).stat().st_mode & 0o777 == 0o600
    assert NEW not in told(outcome) + json.dumps(box.commands) and not box_apply(box, NEW).changed


def test_a_new_key_on_the_box_disturbs_no_session_and_the_old_one_opens_nothing(tmp_path: Path) -> None:
    box = TlsTarget(tmp_path)
    box_apply(box, OLD)
    before = len(box.ring.keys)
    outcome = box_apply(box, NEW)
    assert not outcome.failed and box.unlinked == [] and len(box.ring.keys) == before
    proofs = {item.identity for item in tlspsk.entries(OLD, *tlspsk.pair_of(next(iter(box.ring.keys))))}
    assert not {name for name in proofs if name.startswith("NVMe1")} & set(box.ring.keys)


def test_a_box_becomes_plain_again_and_forgets_its_keys(tmp_path: Path) -> None:
    box = TlsTarget(tmp_path)
    box_apply(box, NEW, boots=True)
    outcome = box_apply(box, "", boots=True, consent=True)
    assert not outcome.failed, outcome.message
    assert ports(box) == {("none", "not specified")}
    assert not box.ring.keys and not box.path(TARGET_PSK_FILE).exists()


def test_a_port_that_would_take_plain_text_too_is_told_and_mended(tmp_path: Path) -> None:
    box = TlsTarget(tmp_path)
    box_apply(box, NEW)
    port = box.list(f"{ROOT}/ports")[0]
    box.path(f"{ROOT}/ports/{port}/addr_treq").write_text("not required\n")
    seen = act(TargetStage(box, box_plan(NEW), boots=False), "verify")
    assert any("not required" in item["observed"] for item in seen.findings)
    assert not box_apply(box, NEW).failed and ports(box) == {("tls1.3", "required")}


def test_a_box_whose_kernel_cannot_is_named(tmp_path: Path) -> None:
    box = TlsTarget(tmp_path)
    for path, text in (("/proc/sys/kernel/osrelease", "6.1\n"), ("/boot/config-6.1", "CONFIG_NVME_TARGET_TCP=m\n")):
        box.path(path).parent.mkdir(parents=True, exist_ok=True)
        box.path(path).write_text(text)
    outcome = box_apply(box, NEW)
    assert "CONFIG_NVME_TARGET_TCP_TLS" in told(outcome) and not outcome.changed


def test_a_port_of_a_kernel_without_tls_is_read_as_plain(tmp_path: Path) -> None:
    box = Target(tmp_path)
    box.make_directory(f"{ROOT}/ports/7")
    assert nvmet.read_port(box, "7")["tls"] is False
