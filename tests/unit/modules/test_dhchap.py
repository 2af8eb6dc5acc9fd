"""In-band authentication: keys are set, changed one path after the other, refused with the reason, and never told."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible.module_utils.g35 import dhchap
from ansible.module_utils.g35.connect import ConnectStage, boot_stage
from ansible.module_utils.g35.connect_keys import KEYS_FILE
from ansible.module_utils.g35.converge import Outcome, act
from ansible.module_utils.g35.host import Result
from ansible.module_utils.g35.plans import ConnectPlan, HostKey
from ansible.module_utils.g35.schema import dump
from ansible.module_utils.g35.target import TargetStage
from ansible.module_utils.g35.target_keys import KEYS_FILE as TARGET_KEYS_FILE
from nvme_kernel import HOST_NQN, Kernel, connect_plan
from target_fakes import ROOT, Target, host_nqn, namespace, plan

OLD, NEW, OTHER = dhchap.generate(), dhchap.generate(), dhchap.generate()


class AuthKernel(Kernel):
    """A kernel with in-band authentication; ``box`` is the key the box has for this host."""

    def __init__(self, root: Path, box: str) -> None:
        super().__init__(root)
        self.box = box
        self.alive_while_changing: list[int] = []
        self.put(
            "/dev/nvme-fabrics",
            "instance=-1,cntlid=-1,transport=%s,traddr=%s,trsvcid=%s,nqn=%s,queue_size=%d,nr_io_queues=%d,hostnqn=%s,hostid=%s,host_traddr=%s,tos=%d,dhchap_secret=%s,dhchap_ctrl_secret=%s",
        )
        self.host.exchange = self.exchange  # type: ignore[method-assign]
        self._write = self.host.write_attribute
        self.host.write_attribute = self.write_attribute  # type: ignore[method-assign]

    def exchange(self, absolute: str, text: str) -> str:
        assert absolute == "/dev/nvme-fabrics"
        option = dict(part.split("=", 1) for part in text.split(","))
        with self._lock:
            if option["dhchap_secret"] != self.box:
                self.log.append(f"[  {50 + len(self.log)}.0] nvme nvme{self._numbers}: qid 0: authentication failed")
                raise PermissionError(1, "Operation not permitted")
            name = self.add_controller(option["nqn"], option["traddr"], option["host_traddr"])
            self.put(f"/sys/class/nvme/{name}/dhchap_secret", option["dhchap_secret"])
            self.put(f"/sys/class/nvme/{name}/dhchap_ctrl_secret", option.get("dhchap_ctrl_secret", "none"))
            return f"instance={name[4:]},cntlid=1"

    def write_attribute(self, absolute: str, value: str) -> None:
        self._write(absolute, value)
        if absolute.endswith("/dhchap_secret"):
            name = absolute.split("/")[-2]
            self.alive_while_changing.append(len(self.live()))
            stamp = f"[  {50 + len(self.log)}.0] nvme {name}: qid 0: "
            if value == self.box:
                self.log.append(stamp + "authenticated")
            else:
                self.log.append(stamp + "authentication failed")
                self.put(f"/sys/class/nvme/{name}/state", "connecting")


def authenticated(key: str, **settings: object) -> ConnectPlan:
    return connect_plan(authentication=HostKey(HOST_NQN, dhchap.digest(key), "/keys/gpu1.key"), **settings)


def secrets(key: str) -> dict[str, dict[str, str]]:
    return {HOST_NQN: {"key": key, "controller_key": ""}}


def apply(kernel: Kernel, key: str, given: Mapping[str, object] | None = None) -> Outcome:
    return act(ConnectStage(kernel.host, authenticated(key), secrets=secrets(key) if given is None else given), "apply")


def told(outcome: Outcome) -> str:
    return json.dumps(outcome.result())


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "form"),
        ("DHHC-1:01:abc", "form"),
        (NEW[:-6] + "AAAA=:", "checksum|base64|bytes"),
        (NEW.replace("DHHC-1:01", "DHHC-1:02"), "do not fit"),
        (NEW, "^$"),
    ],
    # The key is drawn anew in each process: names must not depend on it, or xdist's workers disagree.
    ids=["empty", "no-key", "checksum", "length", "good"],
)
def test_keys_are_checked_before_they_come_near_a_kernel(key: str, why: str) -> None:
    assert re.search(why, dhchap.problem(key))


def test_every_path_is_made_with_the_key_which_is_in_no_argument_list_and_no_result(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, NEW)
    outcome = apply(kernel, NEW)
    assert not outcome.failed, outcome.message
    assert len(kernel.live()) == 4 and not kernel.ran("nvme", "connect")
    assert NEW not in told(outcome) + json.dumps(kernel.commands)
    assert kernel.path(KEYS_FILE).stat().st_mode & 0o777 == 0o600
    assert not apply(kernel, NEW).changed
    assert not act(ConnectStage(kernel.host, authenticated(NEW)), "verify").failed


def test_a_boot_connects_with_the_key_that_the_host_keeps(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, NEW)
    apply(kernel, NEW)
    for name in ("nvme0", "nvme1", "nvme2", "nvme3"):
        kernel.remove_controller(name)
    outcome = act(boot_stage(kernel.host, dump(authenticated(NEW))), "apply")
    assert not outcome.failed, outcome.message
    assert len(kernel.live()) == 4


def test_a_new_key_is_taken_over_path_by_path_without_a_disconnect(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, OLD)
    apply(kernel, OLD)
    kernel.box = NEW
    seen = act(ConnectStage(kernel.host, authenticated(NEW)), "verify")
    assert {item["check"] for item in seen.findings} >= {"connect.key"}
    outcome = apply(kernel, NEW)
    assert not outcome.failed, outcome.message
    assert kernel.alive_while_changing == [4, 4, 4, 4] and not kernel.ran("nvme", "disconnect")
    assert OLD not in told(outcome) and NEW not in told(outcome)
    assert not apply(kernel, NEW).changed


def test_a_key_that_the_box_does_not_have_costs_one_path_and_says_why(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, OLD)
    apply(kernel, OLD)
    outcome = apply(kernel, NEW)  # the box still has the old one
    assert outcome.failed and "authentication failed" in told(outcome)
    assert len(kernel.live()) == 3 and kernel.alive_while_changing == [4]
    assert NEW not in told(outcome)
    # Trying again costs nothing more, and the right key repairs it.
    for _ in range(3):
        assert apply(kernel, NEW).failed and len(kernel.live()) == 3
    healed = apply(kernel, OLD)
    assert not healed.failed and len(kernel.live()) == 4, healed.message


def test_a_wrong_key_is_refused_with_the_kernels_reason_and_what_to_do(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, OLD)
    outcome = apply(kernel, NEW)
    assert outcome.failed and kernel.live() == []
    assert "authentication failed" in outcome.message
    assert any("same key" in item["remedy"] for item in outcome.findings)
    assert NEW not in told(outcome)


def test_paths_that_were_made_without_a_key_are_made_anew_one_at_a_time(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, NEW)
    assert not act(ConnectStage(kernel.host, connect_plan()), "apply").failed
    alive = []
    disconnect = kernel._nvme

    def counting(words: list[str]) -> Result:
        done = disconnect(words)
        alive.append(len(kernel.live()))
        return done

    kernel.answers["nvme"] = counting
    outcome = apply(kernel, NEW)
    assert not outcome.failed, outcome.message
    assert alive == [3, 3, 3, 3] and len(kernel.live()) == 4


def test_a_kernel_without_the_option_is_named_and_never_given_the_key(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, NEW)
    kernel.put("/dev/nvme-fabrics", ",".join(f"{word}=%s" for word in (
        "traddr", "trsvcid", "nqn", "host_traddr", "hostnqn", "hostid", "queue_size", "nr_io_queues", "tos",
    )))  # fmt: skip
    outcome = apply(kernel, NEW)
    assert {item["check"] for item in outcome.findings} == {"connect.kernel"}
    assert "CONFIG_NVME_HOST_AUTH" in told(outcome) and kernel.live() == []
    booted = act(boot_stage(kernel.host, dump(authenticated(NEW))), "apply")
    assert booted.failed and kernel.live() == []


def test_a_kernel_built_without_it_is_found_before_the_module_is_loaded(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, NEW)
    kernel.path("/dev/nvme-fabrics").unlink()
    kernel.put("/boot/config-6.1.0-57-amd64", "CONFIG_NVME_RDMA=m\n# CONFIG_NVME_AUTH is not set")
    assert "without CONFIG_NVME_HOST_AUTH" in told(apply(kernel, NEW))
    kernel.put("/boot/config-6.1.0-57-amd64", "CONFIG_NVME_AUTH=y")
    assert "without CONFIG_NVME_HOST_AUTH" not in told(apply(kernel, NEW))


def test_a_key_other_than_the_planned_one_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, NEW)
    outcome = apply(kernel, NEW, secrets(OTHER))
    assert {item["check"] for item in outcome.findings} == {"connect.key"} and not outcome.changed
    assert "plan again" in told(outcome)


def test_giving_authentication_up_removes_the_key(tmp_path: Path) -> None:
    kernel = AuthKernel(tmp_path, NEW)
    apply(kernel, NEW)
    assert not act(ConnectStage(kernel.host, connect_plan()), "apply").failed
    assert not kernel.path(KEYS_FILE).exists()


def test_a_box_that_asks_for_a_key_is_explained_whatever_nvme_cli_says(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    kernel.answers["nvme"] = lambda words: Result(words, 1, "", "failed to connect: pre-shared TLS key is missing\n")
    outcome = act(ConnectStage(kernel.host, connect_plan([0])), "apply")
    assert any("g35_nvme.authentication" in item["remedy"] for item in outcome.findings)


# The box


def box_plan(key: str) -> object:
    keys = tuple(HostKey(host_nqn(number), dhchap.digest(key), "/keys") for number in (1, 2))
    return type(plan([]))(**{**vars(plan([namespace(0), namespace(1)])), "authentication": keys})


def box_secrets(key: str) -> dict[str, dict[str, str]]:
    return {host_nqn(number): {"key": key} for number in (1, 2)}


class AuthTarget(Target):
    """nvmet with in-band authentication. ``order`` is what was written and linked."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.order: list[str] = []
        for number in range(2):
            self.add_device(namespace(number).device)

    def make_directory(self, absolute: str) -> None:
        fresh = not self.path(absolute).exists()
        super().make_directory(absolute)
        if fresh and absolute.startswith(ROOT + "/hosts/"):
            for name in ("dhchap_key", "dhchap_ctrl_key"):
                self.path(f"{absolute}/{name}").write_text("\n")

    def write_attribute(self, absolute: str, value: str) -> None:
        super().write_attribute(absolute, value.rstrip("\n"))
        self.order.append(absolute.rpartition("/")[2])

    def make_link(self, target: str, absolute: str) -> None:
        super().make_link(target, absolute)
        self.order.append("link")


def box_apply(box: AuthTarget, key: str) -> Outcome:
    return act(TargetStage(box, box_plan(key), boots=False, secrets=box_secrets(key)), "apply")  # type: ignore[arg-type]


def test_the_box_asks_each_host_for_its_key_before_it_lets_it_in(tmp_path: Path) -> None:
    box = AuthTarget(tmp_path)
    outcome = box_apply(box, NEW)
    assert not outcome.failed, outcome.message
    assert box.order.index("dhchap_key") < box.order.index("link")
    for number in (1, 2):
        assert box.read_value(f"{ROOT}/hosts/{host_nqn(number)}/dhchap_key") == NEW
    assert box.path(TARGET_KEYS_FILE).stat().st_mode & 0o777 == 0o600
    assert NEW not in told(outcome) and not box_apply(box, NEW).changed


def test_a_new_key_on_the_box_disturbs_no_session(tmp_path: Path) -> None:
    box = AuthTarget(tmp_path)
    box_apply(box, OLD)
    box.sessions = [("192.0.2.21", "192.0.2.11")]
    outcome = box_apply(box, NEW)
    assert not outcome.failed and box.unlinked == []
    assert {change["what"].split()[0] for change in outcome.changes} >= {"key"}
    assert OLD not in told(outcome)


def test_the_box_keeps_its_keys_over_a_boot_and_forgets_them_when_asked(tmp_path: Path) -> None:
    box = AuthTarget(tmp_path)
    box_apply(box, NEW)
    box.path(f"{ROOT}/hosts/{host_nqn(1)}/dhchap_key").write_text("\n")
    booted = act(TargetStage(box, box_plan(NEW), boots=False), "apply")  # type: ignore[arg-type]
    assert not booted.failed and box.read_value(f"{ROOT}/hosts/{host_nqn(1)}/dhchap_key") == NEW
    box.path("/etc/g35ctl").mkdir(exist_ok=True, parents=True)
    box.path("/etc/g35ctl/target.json").write_text(json.dumps({**dump(box_plan(NEW)), "files": [], "units": []}))
    without = act(TargetStage(box, plan([namespace(0), namespace(1)]), boots=False), "apply")
    assert not without.failed, without.message
    assert box.read_value(f"{ROOT}/hosts/{host_nqn(1)}/dhchap_key") == ""
    assert not box.path(TARGET_KEYS_FILE).exists()


def test_a_box_whose_kernel_cannot_ask_is_named(tmp_path: Path) -> None:
    box = AuthTarget(tmp_path)
    box.path("/proc/sys/kernel").mkdir(parents=True)
    box.path("/proc/sys/kernel/osrelease").write_text("6.1\n")
    box.path("/boot").mkdir()
    box.path("/boot/config-6.1").write_text("CONFIG_NVME_TARGET=m\n")
    outcome = box_apply(box, NEW)
    assert "CONFIG_NVME_TARGET_AUTH" in told(outcome) and not outcome.changed
