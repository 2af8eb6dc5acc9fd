"""What engines say of themselves: counters in the Prometheus text format, and vLLM's log of which tier gave what.

Names: vLLM 0.32.0 (``vllm:prompt_tokens_by_source_total``, log line "Mooncake load tier summary" with
VLLM_MOONCAKE_STORE_TIER_LOG=1) and SGLang 0.5.23 (``sglang:cached_tokens_total``). Counters start again from zero when
an engine does, so a difference below zero is a restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from g35ctl.validate.serving_result import TierTokens

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_TIERS = re.compile(r"Mooncake load tier summary:.*\bbytes_by_tier=(\{[^}]*\})")
_BYTES = re.compile(r"'(\w+)':\s*(\d+)")


class UnknownMetrics(ValueError):
    """The text is no engine's metrics, or not whole; the message says what is missing."""


@dataclass(frozen=True)
class Sample:
    """One line of a metrics text."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse(text: str) -> tuple[Sample, ...]:
    """The samples of a metrics text. Raises UnknownMetrics for a line that is none: a text that was cut off."""
    found = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        try:
            if match is None:
                raise ValueError
            found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
        except ValueError as error:
            raise UnknownMetrics(f"not a metrics line: {line[:80]!r}") from error
    return tuple(found)


@dataclass(frozen=True)
class EngineCounters:
    """Prompt tokens an engine has seen so far, by where they came from. ``external`` came from the store."""

    prompt: float
    device: float
    host: float
    external: float
    computed: float

    def since(self, before: EngineCounters) -> EngineCounters | None:
        """What was counted after ``before``; None when the engine was started again in between."""
        names = ("prompt", "device", "host", "external", "computed")
        rises = {name: getattr(self, name) - getattr(before, name) for name in names}
        return None if min(rises.values()) < 0 else EngineCounters(**rises)


def counters(text: str) -> EngineCounters:
    """The counters in a metrics text of vLLM or SGLang. Raises UnknownMetrics."""
    samples = parse(text)
    names = {sample.name for sample in samples}
    if any(name.startswith("vllm:") for name in names):
        return _vllm(samples, names)
    if any(name.startswith("sglang:") for name in names):
        return _sglang(samples, names)
    raise UnknownMetrics("neither vLLM's nor SGLang's metrics")


def _vllm(samples: Sequence[Sample], names: set[str]) -> EngineCounters:
    source = "vllm:prompt_tokens_by_source_total"
    # An engine that has served nothing yet has no counter by source; once it has a prompt it must have both.
    prompt = _sum(samples, "vllm:prompt_tokens_total")
    if source not in names and (prompt or "vllm:prompt_tokens_total" not in names):
        raise UnknownMetrics(f"{source} is missing")
    return EngineCounters(
        prompt=prompt,
        device=_sum(samples, source, source="local_cache_hit"),
        host=0.0,
        external=_sum(samples, source, source="external_kv_transfer"),
        computed=_sum(samples, source, source="local_compute"),
    )


def _sglang(samples: Sequence[Sample], names: set[str]) -> EngineCounters:
    if "sglang:prompt_tokens_total" not in names:
        raise UnknownMetrics("sglang:prompt_tokens_total is missing: was it started with --enable-metrics?")
    prompt = _sum(samples, "sglang:prompt_tokens_total")
    found = {
        name: _sum(samples, "sglang:cached_tokens_total", cache_source=name) for name in ("device", "host", "storage")
    }
    computed = prompt - sum(found.values())
    return EngineCounters(prompt, found["device"], found["host"], found["storage"], computed)


def _sum(samples: Iterable[Sample], name: str, **labels: str) -> float:
    return sum(
        sample.value
        for sample in samples
        if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
    )


@dataclass(frozen=True)
class StoreBytes:
    """Bytes that engines loaded from the store, by tier; ``unknown`` where the engine could not tell."""

    memory: int = 0
    flash: int = 0
    unknown: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.memory + self.flash + self.unknown


def store_bytes(log: str) -> StoreBytes:
    """The sum over every load that a vLLM log tells of."""
    found = {"memory": 0, "disk": 0, "unknown": 0}
    for line in log.splitlines():
        match = _TIERS.search(line)
        for tier, size in _BYTES.findall(match[1]) if match else ():
            found[tier if tier in found else "unknown"] += int(size)
    return StoreBytes(found["memory"], found["disk"], found["unknown"])


def tier_tokens(rises: Sequence[EngineCounters], loads: StoreBytes | None) -> TierTokens:
    """Where the prompt tokens of a measurement came from, over all engines.

    Tokens from the store are split as the bytes that were loaded are; without ``loads`` they stay ``store``.
    """
    external = round(sum(item.external for item in rises))
    memory = flash = 0
    if loads is not None and loads.total:
        memory = round(external * loads.memory / loads.total)
        flash = min(external - memory, round(external * loads.flash / loads.total))
    return TierTokens(
        device=round(sum(item.device for item in rises)),
        host=round(sum(item.host for item in rises)),
        memory=memory,
        flash=flash,
        store=external - memory - flash,
        computed=round(sum(item.computed for item in rises)),
    )
