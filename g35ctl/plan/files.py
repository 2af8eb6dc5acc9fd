"""Renders what ends on hosts: templates/<stage>/files.yml says which files and units a stage plan has.

Form of ``files.yml``::

    files:
      - template: port.conf.j2          # beside files.yml
        path: /etc/g35ctl/{{ item.netdev }}.conf
        mode: "0644"                    # default
        owner: root                     # default
        group: root                     # default
        when: plan.transport == "rdma"  # optional expression
        each: plan.ports                # optional expression: one file per item
    units:
      - name: g35-example.service
        enabled: true                   # default
        active: true                    # default
        restart_on: [/etc/g35ctl/example.conf]
        when: ...
        each: ...

Templates see ``plan`` (the stage plan), ``site``, ``host`` and ``item``. An undefined name is an error, and so is a
value with a line break or another control character: what a user writes can fill a line but never start one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import jinja2
import yaml
from ansible.module_utils.g35.plans import File, Unit

from g35ctl.content import content_root
from g35ctl.errors import G35Error
from g35ctl.plan.model import HostPlan
from g35ctl.site.model import Site, SiteHost

RENDERED: Mapping[str, tuple[str, ...]] = {
    **{stage: (stage,) for stage in ("target", "fabric", "connect", "storage", "cache")},
    "inference": ("inference_vllm", "inference_sglang", "inference_router"),
}
"""Stage plan to the directories of templates that render it."""


_NOT_IN_UNIT_NAMES = re.compile(r"^\.|[^A-Za-z0-9:_./]")


class _Lines(str):
    """Several checked lines that may be written as they are."""

    __slots__ = ()


class UnsafeValue(ValueError):
    """A value that would break out of its line."""


def _checked(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, _Lines) and not value.isprintable():
        raise UnsafeValue(f"{value!r} holds a line break or a control character")
    return value


def unit_quote(value: object) -> str:
    """A value as one quoted word of a systemd unit: quotes and backslashes escaped, ``%`` doubled."""
    text = str(_checked(str(value)))
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%")):
        text = text.replace(char, escaped)
    return f'"{text}"'


def exec_quote(value: object) -> str:
    """A value as one word of an ``Exec`` line: like unit_quote, and ``$`` doubled so that nothing is expanded."""
    return unit_quote(value).replace("$", "$$")


def unit_escape(path: object) -> str:
    """A path as systemd escapes it in unit names: ``/var/lib/a-b`` is ``var-lib-a\\x2db``."""
    text = "/".join(part for part in str(path).split("/") if part)
    escaped = _NOT_IN_UNIT_NAMES.sub(_escape, text)
    return escaped.replace("/", "-") or "-"


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match.group().encode())


def lines(values: Iterable[object]) -> str:
    """Values one below the other, each checked on its own."""
    return _Lines("\n".join(str(_checked(str(value))) for value in values))


Text = Callable[[Mapping[str, Any], Any], str]
"""Gives the text for the names that templates see and the item at hand."""


def _text(source: str) -> Text:
    """Most texts of files.yml are constants, and those cost nothing."""
    if "{" not in source:
        return lambda names, item: source
    render = _environment().from_string(source).render
    return lambda names, item: render(names, item=item)


@dataclass(frozen=True)
class _Entry:
    """One entry of files.yml with its expressions compiled."""

    template: str
    content: Text | None
    texts: Mapping[str, Text]
    restart_on: tuple[Text, ...]
    enabled: bool
    active: bool
    when: Any
    each: Any

    def items(self, names: Mapping[str, Any]) -> Iterator[Any]:
        """What to render the entry for: nothing, once (None), or once per item."""
        if self.each is None:
            if self.when is None or self.when(**names):
                yield None
            return
        for item in self.each(**names) or ():
            if self.when is None or self.when(**names, item=item):
                yield item


@dataclass(frozen=True)
class _Manifest:
    files: tuple[_Entry, ...] = ()
    units: tuple[_Entry, ...] = ()


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - the results are configuration files, not HTML
        loader=jinja2.FileSystemLoader(content_root() / "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_checked,
        auto_reload=False,
    )
    environment.filters.update(unit_quote=unit_quote, exec_quote=exec_quote, unit_escape=unit_escape, lines=lines)
    return environment


_FILE_KEYS = frozenset({"template", "path", "mode", "owner", "group", "when", "each"})
_UNIT_KEYS = frozenset({"name", "enabled", "active", "restart_on", "when", "each"})


@cache
def _manifest(stage: str) -> _Manifest:
    path = content_root() / "templates" / stage / "files.yml"
    if not path.is_file():
        return _Manifest()
    data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    files = tuple(_entry(stage, item, _FILE_KEYS, ("path", "mode", "owner", "group")) for item in data.get("files", []))
    units = tuple(_entry(stage, item, _UNIT_KEYS, ("name",)) for item in data.get("units", []))
    return _Manifest(files, units)


def _entry(stage: str, item: Mapping[str, Any], allowed: frozenset[str], texts: tuple[str, ...]) -> _Entry:
    unknown = sorted(set(item) - allowed)
    if unknown:
        raise G35Error(f"templates/{stage}/files.yml: unknown key {', '.join(unknown)}", why=str(dict(item)))
    if not isinstance(item.get("mode", ""), str):
        raise G35Error(f"templates/{stage}/files.yml: mode needs quotes, or YAML reads it as a number", why=str(item))
    environment = _environment()

    def expression(name: str) -> Any:
        return environment.compile_expression(str(item[name]), undefined_to_none=False) if name in item else None

    defaults = {"mode": "0644", "owner": "root", "group": "root"}
    return _Entry(
        template=f"{stage}/{item['template']}" if "template" in item else "",
        content=_content(f"{stage}/{item['template']}") if "template" in item else None,
        texts={name: _text(str(item.get(name, defaults.get(name, "")))) for name in texts},
        restart_on=tuple(_text(str(path)) for path in item.get("restart_on", ())),
        enabled=bool(item.get("enabled", True)),
        active=bool(item.get("active", True)),
        when=expression("when"),
        each=expression("each"),
    )


def _content(template: str) -> Text:
    """The template's text. It is compiled when it is first needed, so that its mistakes are reported with its name."""

    def content(names: Mapping[str, Any], item: Any) -> str:
        return _environment().get_template(template).render(names, item=item)

    return content


def render(stage: str, plan: Any, site: Site, host: SiteHost) -> tuple[tuple[File, ...], tuple[Unit, ...]]:
    """Files and units of one stage plan. Raises G35Error that names the template, the host and the reason."""
    names = {"plan": plan, "site": site, "host": host}
    manifest = _manifest(stage)
    where = f"templates/{stage}/files.yml"
    try:
        files = []
        for entry in manifest.files:
            for item in entry.items(names):
                where = f"templates/{entry.template}"
                content = entry.content(names, item) if entry.content is not None else ""
                files.append(File(content=content, **{name: text(names, item) for name, text in entry.texts.items()}))
        where = f"templates/{stage}/files.yml"
        units = [
            Unit(
                entry.texts["name"](names, item),
                entry.enabled,
                entry.active,
                tuple(path for text in entry.restart_on if (path := text(names, item))),
            )
            for entry in manifest.units
            for item in entry.items(names)
        ]
    except (jinja2.TemplateError, UnsafeValue) as error:
        raise G35Error(
            f"cannot render the files of stage {stage} for {host.name}",
            why=f"{where}: {error}",
            next_command="correct the value in the inventory, then g35ctl check",
        ) from error
    return tuple(files), tuple(units)


def with_files(plan: HostPlan, site: Site, host: SiteHost) -> HostPlan:
    """``plan`` with the rendered files and units of each of its stages."""
    changed: dict[str, Any] = {}
    for stage, directories in RENDERED.items():
        part = getattr(plan, stage)
        if part is not None:
            rendered = [render(directory, part, site, host) for directory in directories]
            files = tuple(file for found, _ in rendered for file in found)
            units = tuple(unit for _, found in rendered for unit in found)
            if files or units:
                changed[stage] = replace(part, files=files, units=units)
    return replace(plan, **changed) if changed else plan
