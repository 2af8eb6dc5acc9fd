"""TLS for NVMe/TCP in a site: who has to agree to what, what a plan holds of a key, and where the roles get it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from ansible.module_utils.g35 import dhchap, tlspsk

from g35ctl.content import content_root
from g35ctl.engine import keyfiles
from g35ctl.engine.planning import make_plan
from g35ctl.lab.recipe import recipe
from g35ctl.site.load import inspect, load_without_keys
from g35ctl.site.problems import Problem, SiteInvalid
from g35ctl.site.secret_list import TLS_KEY, secrets_of

OWNERS = ("gpu1", "gpu2")


def put_key(path: Path, key: str) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(key + "\n")
    path.chmod(0o600)


def make_site(folder: Path, *, transport: str = "tcp", nvme: str = "tls: {mode: psk}", keys: bool = True) -> Path:
    site = folder / "site"
    shutil.copytree(
        content_root() / "inventories" / "lab", site, ignore=shutil.ignore_patterns(".lab", ".g35", ".keys", "lab_*")
    )
    variables = site / "group_vars" / "all.yml"
    text = variables.read_text().replace("g35_nvme:\n", f"g35_nvme:\n  {nvme}\n")
    variables.write_text(text.replace("transport: rdma", f"transport: {transport}"))
    for name in OWNERS if keys else ():
        put_key(site / ".keys" / f"{name}.psk", tlspsk.generate())
    return site


def told(site: Path) -> list[Problem]:
    return [item for item in inspect(str(site))[1] if item.where.startswith(("g35_nvme.tls", "g35_ebof.driver"))]


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    return make_site(tmp_path)


def test_the_plan_names_the_key_of_each_owner_at_both_ends_and_holds_none(sealed: Path) -> None:
    _, plan = make_plan(str(sealed))
    keys = {name: (sealed / ".keys" / f"{name}.psk").read_text().strip() for name in OWNERS}
    target = plan.host("ebof1").target
    assert target is not None and target.portals and all(portal.tls for portal in target.portals)
    assert {item.digest for item in target.tls} == {dhchap.digest(key) for key in keys.values()}
    for name, key in keys.items():
        connect = plan.host(name).connect
        assert connect is not None and connect.tls in target.tls and connect.authentication is None
        assert key not in json.dumps(plan.to_json())


def test_without_tls_no_portal_asks_for_it(tmp_path: Path) -> None:
    _, plan = make_plan(str(make_site(tmp_path, nvme="tls: {mode: none}", keys=False)))
    target = plan.host("ebof1").target
    assert target is not None and not target.tls and not any(portal.tls for portal in target.portals)


def test_tls_over_rdma_is_refused_where_it_is_written(tmp_path: Path) -> None:
    (problem,) = told(make_site(tmp_path, transport="rdma"))
    assert problem.severity == "error" and "NVMe/TCP" in problem.what
    assert problem.position.file.endswith("all.yml") and problem.position.line
    assert set(problem.hosts) >= set(OWNERS)


def test_owners_agree_and_do_not_authenticate_twice(tmp_path: Path) -> None:
    site = make_site(tmp_path)
    folder = site / "host_vars"
    folder.mkdir(exist_ok=True)
    for name in (folder / "gpu2.yml", folder / "gpu2"):
        if name.is_file():
            name.write_text(name.read_text() + "\ng35_nvme: {tls: {mode: none}}\n")
            break
    else:
        (folder / "gpu2.yml").write_text("g35_nvme: {tls: {mode: none}}\n")
    assert any("all hosts or from none" in item.what and item.hosts == ("gpu2",) for item in told(site))
    both = make_site(tmp_path / "both", nvme="tls: {mode: psk}\n  authentication: {mode: dhchap}")
    assert any("at once" in item.what for item in told(both))


def test_keys_that_cannot_be_used_are_told_and_never_shown(sealed: Path) -> None:
    first, second = (sealed / ".keys" / f"{name}.psk" for name in OWNERS)
    first.chmod(0o644)
    second.write_text(second.read_text()[:-8])
    with pytest.raises(SiteInvalid) as caught:
        make_plan(str(sealed))
    text = "\n".join(f"{item.what} {item.hint}" for item in caught.value.problems)
    assert "chmod 600" in text and "gen-tls-key" in text and "NVMeTLSkey-1:01:<base64>" in text
    assert first.read_text().strip() not in text
    put_key(first, tlspsk.generate())
    put_key(second, first.read_text().strip())
    assert any("also that of gpu1" in item.what for item in told(sealed))


def test_missing_keys_are_made(tmp_path: Path) -> None:
    site = make_site(tmp_path, keys=False)
    missing = [item for item in secrets_of(*load_without_keys(str(site))) if item.condition == "missing"]
    assert {item.kind for item in missing} == {TLS_KEY} and all(item.generated for item in missing)
    for item in missing:
        keyfiles.create(Path(item.where), make=keyfiles.maker(item.kind))
        assert not tlspsk.problem(Path(item.where).read_text().strip())
    assert {item.condition for item in secrets_of(*load_without_keys(str(site)))} == {"ok"} and not told(site)


def test_a_new_key_is_something_to_apply_and_a_moved_file_is_not(sealed: Path) -> None:
    before = make_plan(str(sealed))[1].digest
    moved = sealed.rename(sealed.parent / "moved")
    assert make_plan(str(moved))[1].digest == before
    put_key(moved / ".keys" / "gpu1.psk", tlspsk.generate())
    assert make_plan(str(moved))[1].digest != before


def test_the_roles_get_the_key_and_nothing_open_to_others(tmp_path: Path) -> None:
    from ansible.errors import AnsibleError
    from ansible.plugins.loader import lookup_loader

    lookup_loader.add_directory(str(content_root() / "plugins" / "lookup"))
    lookup = lookup_loader.get("g35_keys")
    key, file = tlspsk.generate(), tmp_path / "gpu1.psk"
    put_key(file, key)
    entry = {"host_nqn": "nqn.a", "digest": dhchap.digest(key), "key_file": str(file)}
    assert lookup.run([{"tls": entry}, {"tls": [entry]}, {"tls": None}]) == [
        {"nqn.a": {"psk": key}},
        {"nqn.a": {"psk": key}},
        {},
    ]
    file.chmod(0o640)
    with pytest.raises(AnsibleError, match="chmod 600"):
        lookup.run([{"tls": entry}])


def test_only_debian_13_guests_bring_the_daemon() -> None:
    assert "ktls-utils" in recipe("trixie").packages and "ktls-utils" not in recipe("bookworm").packages
