"""Every sentence of the report, one catalogue file per language in ``catalogues/``.

:class:`Strings` says which texts there are: a catalogue that lacks one, or has one too many, does not load and names
every difference, and mypy names a text that code uses and no catalogue can have. Placeholders are ``str.format`` fields
and must be kept by a translation. What checks and findings themselves say comes from the hosts and is not translated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ansible.module_utils.g35.schema import load as load_fields

from g35ctl.errors import G35Error
from g35ctl.exits import Exit


@dataclass(frozen=True)
class ServingStrings:
    """Texts of the serving suite's tables and charts."""

    heading: str
    workload: str
    trace: str
    replayed: str
    cost: str
    scaled_note: str
    missing_heading: str
    not_restored: str
    users: str
    turn: str
    ttft_mean: str
    ttft_p99: str
    hit_rate: str
    against_memory: str
    few_samples: str
    incomplete: str
    detail_heading: str
    path: str
    trials: str
    samples: str
    cold_mean: str
    p50: str
    p90: str
    tail: str
    trial_means: str
    recomputed: str
    offered: str
    achieved: str
    errors: str
    paths_heading: str
    memory: str
    flash: str
    knee: str
    how: str
    knee_note: str
    equality: str
    equality_differs: str
    agreement: str
    engines: str
    chart_mean: str
    chart_p99: str
    chart_hit: str
    chart_turn: str
    chart_tiers: str
    seconds_lower: str
    p99_lower: str
    percent_higher: str
    percent_of_turn: str
    percent_of_prompt: str
    active_users: str
    knee_label: str
    knee_beyond: str
    knee_before: str
    ceiling_label: str
    hollow_points: str
    whiskers: str
    axis_starts: str
    point: str
    users_group: str


@dataclass(frozen=True)
class BenchStrings:
    """Texts of the benchmark suites' tables and charts. ``lines`` label the series by suite and test."""

    heading: str
    suites: Mapping[str, str]
    charts: Mapping[str, str]
    axes: Mapping[str, str]
    lines: Mapping[str, str]
    stores: Mapping[str, str]
    tests: Mapping[str, str]
    bandwidth_higher: str
    test: str
    peer: str
    block: str
    depth: str
    bandwidth: str
    latency_mean: str
    latency_p99: str
    verified: str
    mismatched: str
    not_measured: str
    counters_heading: str
    counters_none: str
    port: str
    counter: str
    kind: str
    kinds: Mapping[str, str]
    rise: str
    more: str


@dataclass(frozen=True)
class CompareStrings:
    """Texts of ``g35ctl report --compare``."""

    title: str
    regressions: Mapping[str, str]
    summary: str
    before: str
    after: str
    difference: str
    figure: str
    state: str
    states: Mapping[str, str]
    cautions_heading: str
    cautions: Mapping[str, str]
    checks_heading: str
    figures_heading: str
    figures_note: str
    figures_unmoved: str
    unchanged_heading: str
    figures_none: str
    checks_none: str
    charts_heading: str
    runs_heading: str
    versions_heading: str
    figures: Mapping[str, str]
    absent: str
    footer: str


@dataclass(frozen=True)
class Strings:
    """The fixed texts of one language. ``language`` is its BCP 47 tag."""

    language: str
    overline: str
    title: str
    verdicts: Mapping[str, str]
    verdict_lines: Mapping[str, str]
    grades: Mapping[str, str]
    host_states: Mapping[str, str]
    emulated: str
    scaled: str
    predicted: str
    emulated_note: str
    check_mode_note: str
    failures_heading: str
    failures_none: str
    checks_heading: str
    checks_none: str
    checks_of_cluster: str
    stages_heading: str
    stages_none: str
    topology_heading: str
    topology_note: str
    topology_more: str
    capacity_heading: str
    versions_heading: str
    commands_heading: str
    run_heading: str
    results_heading: str
    suite: str
    tool: str
    command_line: str
    host: str
    hosts: str
    stage: str
    check: str
    subject: str
    grade: str
    observed: str
    expected: str
    remedy: str
    evidence: str
    seconds: str
    changed_tasks: str
    module_executions: str
    rail: str
    owns: str
    master: str
    no_namespaces: str
    site: str
    run: str
    verb: str
    started: str
    duration: str
    exit_code: str
    plan_digest: str
    transport: str
    mtu: str
    flash_capacity: str
    store_capacity: str
    memory_capacity: str
    version: str
    counts: str
    more_failures: str
    problems_note: str
    sign_heading: str
    sign_note: str
    sign_integrator: str
    sign_customer: str
    sign_name: str
    sign_date: str
    sign_signature: str
    footer: str
    paths: Mapping[str, str]
    tiers: Mapping[str, str]
    key_figures: Mapping[str, str]
    serving: ServingStrings
    bench: BenchStrings
    compare: CompareStrings


def languages() -> tuple[str, ...]:
    """The tags of all catalogues, English first."""
    names = [
        item.name.removesuffix(".toml")
        for item in resources.files("g35ctl.report").joinpath("catalogues").iterdir()
        if item.name.endswith(".toml")
    ]
    return tuple(sorted(names, key=lambda name: (name != "en", name)))


def named(language: str) -> Strings:
    """The texts of a language, also for locale forms like ``zh_CN.UTF-8`` or plain ``zh``. Raises G35Error (usage)."""
    known = languages()
    wanted = language.partition(".")[0].replace("_", "-").lower()
    for name in known:
        if wanted == name.lower():
            return catalogue(name)
    for name in known:
        if wanted.partition("-")[0] == name.partition("-")[0] and not wanted.startswith(("zh-tw", "zh-hant", "zh-hk")):
            return catalogue(name)
    raise G35Error(
        f"there is no report language {language!r}",
        why=f"languages: {', '.join(known)}",
        next_command=f"--lang {known[-1]}",
        exit_code=Exit.USAGE,
    )


@cache
def catalogue(name: str) -> Strings:
    """The catalogue file of that very name. Raises SchemaError with everything that is missing or too much."""
    text = resources.files("g35ctl.report").joinpath("catalogues", f"{name}.toml").read_text(encoding="utf-8")
    return load_fields(Strings, tomllib.loads(text))


ENGLISH = catalogue("en")
