"""Wheels unpacked into an environment: the same files pip would leave, and nothing outside of it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from ansible.module_utils.g35 import wheels

PYTHON = "/opt/env/bin/python"


def build(path: Path, members: dict[str, str], executable: tuple[str, ...] = ()) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            member = zipfile.ZipInfo(name)
            member.external_attr = (0o755 if name in executable else 0o644) << 16
            archive.writestr(member, text)
    return str(path)


def install(tmp_path: Path, members: dict[str, str], executable: tuple[str, ...] = ()) -> list[str]:
    (tmp_path / "bin").mkdir()
    wheel = build(tmp_path / "a-1-py3-none-any.whl", members, executable)
    return wheels.install(wheel, str(tmp_path / "lib"), str(tmp_path / "bin"), PYTHON)


def test_files_keep_their_content_and_binaries_stay_executable(tmp_path: Path) -> None:
    install(tmp_path, {"a/tool": "binary", "a/__init__.py": "x = 1\n"}, executable=("a/tool",))
    assert (tmp_path / "lib/a/__init__.py").read_text() == "x = 1\n"
    assert (tmp_path / "lib/a/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "lib/a/__init__.py").stat().st_mode & 0o777 == 0o644


def test_console_scripts_call_their_function_with_the_environments_python(tmp_path: Path) -> None:
    entry = "[console_scripts]\ntool = a.cli:App.main\nother=a.cli:run [extra]\n\n[other]\nx = y:z\n"
    assert install(tmp_path, {"a-1.dist-info/entry_points.txt": entry}) == ["other", "tool"]
    text = (tmp_path / "bin/tool").read_text()
    assert text.startswith(f"#!{PYTHON}\n")
    assert "from a.cli import App\n" in text and "sys.exit(App.main())" in text
    assert (tmp_path / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert "from a.cli import run\n" in (tmp_path / "bin/other").read_text()


def test_data_directories_go_where_they_belong(tmp_path: Path) -> None:
    install(tmp_path, {"a-1.data/purelib/b.py": "b", "a-1.data/scripts/run": "#!python\nprint(1)\n"})
    assert (tmp_path / "lib/b.py").read_text() == "b"
    assert (tmp_path / "bin/run").read_text() == f"#!{PYTHON}\nprint(1)\n"


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "a/../../evil", "a-1.data/purelib/../../../evil"])
def test_a_member_never_leaves_the_environment(tmp_path: Path, name: str) -> None:
    with pytest.raises(wheels.WheelError, match="unsafe path"):
        install(tmp_path, {name: "x"})


def test_what_it_cannot_place_is_refused_not_left_out(tmp_path: Path) -> None:
    with pytest.raises(wheels.WheelError, match="headers"):
        install(tmp_path, {"a-1.data/headers/a.h": ""})
