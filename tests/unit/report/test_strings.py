"""Catalogues: complete in every language, with the same placeholders, and nothing in them that nobody shows."""

from __future__ import annotations

import dataclasses
import re
import string
import tomllib
import typing
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.g35.schema import SchemaError, load

from g35ctl import report
from g35ctl.errors import G35Error
from g35ctl.exits import Exit
from g35ctl.report.strings import ENGLISH, Strings, catalogue, languages, named

OTHERS = [name for name in languages() if name != "en"]
#: the same in Chinese: names, units, and what engineers write in English everywhere
SHARED = {
    "rail", "mtu", "master", "paths.g35", "bench.bandwidth", "bench.lines.put", "bench.lines.get", "bench.tests.put",
    "bench.tests.get", "bench.lines.other", "serving.chart_p99", "serving.point", "bench.latency_p99",
    "compare.figures.ttft_p99",
}  # fmt: skip


def texts(name: str) -> dict[str, str]:
    """Every text of a catalogue under its dotted key."""
    source = resources.files("g35ctl.report").joinpath(f"catalogues/{name}.toml").read_text(encoding="utf-8")
    return dict(_flat(tomllib.loads(source)))


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def placeholders(text: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}


@pytest.mark.parametrize("name", OTHERS)
def test_no_key_is_missing_and_placeholders_are_kept(name: str) -> None:
    english, other = texts("en"), texts(name)
    assert set(other) == set(english)
    assert {key: placeholders(text) for key, text in other.items()} == {k: placeholders(t) for k, t in english.items()}


def test_chinese_is_translated_throughout() -> None:
    english = texts("en")
    for key, text in texts("zh-CN").items():
        if key not in SHARED | {"language"}:
            assert re.search("[\u4e00-\u9fff]", text), f"{key} is not translated: {text}"
            assert text != english[key]


@pytest.mark.parametrize("name", ["en", *OTHERS])
def test_catalogue_that_lacks_a_key_or_has_one_too_many_does_not_load(name: str) -> None:
    table = tomllib.loads(
        resources.files("g35ctl.report").joinpath(f"catalogues/{name}.toml").read_text(encoding="utf-8")
    )
    del table["serving"]["knee_label"]
    table["extra"] = "?"
    with pytest.raises(SchemaError) as caught:
        load(Strings, table)
    assert {problem.split(":")[0] for problem in caught.value.problems} == {"serving.knee_label", "extra"}


def fields_of(kind: type[Any]) -> Iterator[str]:
    for field in dataclasses.fields(kind):
        inner = typing.get_type_hints(kind)[field.name]
        yield field.name
        if dataclasses.is_dataclass(inner):
            yield from fields_of(inner)  # type: ignore[arg-type]


def test_every_text_is_shown_somewhere() -> None:
    room = Path(report.__file__).parent
    sources = [path.read_text(encoding="utf-8") for path in (*room.rglob("*.py"), *room.rglob("*.j2"))]
    used = {name for source in sources for name in re.findall(r"\.([a-z_0-9]+)", source)}
    assert set(fields_of(Strings)) - used == set()


@pytest.mark.parametrize("given", ["zh-CN", "zh", "zh_CN.UTF-8", "ZH-cn", "zh-Hans"])
def test_chinese_is_found_under_the_names_people_use(given: str) -> None:
    assert named(given) is catalogue("zh-CN")


def test_english_is_found_under_a_locale() -> None:
    assert named("en_GB.UTF-8") is ENGLISH


@pytest.mark.parametrize("given", ["fr", "", "zh-TW", "zh_HK.UTF-8"])
def test_unknown_language_is_a_usage_error_that_lists_the_known_ones(given: str) -> None:
    with pytest.raises(G35Error) as caught:
        named(given)
    assert caught.value.exit_code is Exit.USAGE
    assert "en, zh-CN" in caught.value.why
