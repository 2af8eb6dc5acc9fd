"""Every sentence of the report, in one place: a translation is one more :class:`Strings`, and mypy names what it lacks.

Placeholders are ``str.format`` fields and must be kept by a translation. What checks and findings themselves say comes
from the hosts and is not translated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Strings:
    """The fixed texts of one language. ``language`` is its BCP 47 tag."""

    language: str
    title: str
    verdicts: Mapping[str, str]
    verdict_lines: Mapping[str, str]
    grades: Mapping[str, str]
    host_states: Mapping[str, str]
    emulated: str
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
    run_heading: str
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
    total: str
    rail: str
    box: str
    owner: str
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
    component: str
    version: str
    counts: str
    more_failures: str
    files: str
    footer: str


ENGLISH = Strings(
    language="en",
    title="g35ctl report: {site}",
    verdicts={"PASS": "PASS", "WARN": "PASS WITH WARNINGS", "FAIL": "FAIL", "NONE": "NOT VALIDATED"},
    verdict_lines={
        "PASS": "The tier is in service and every check holds.",
        "WARN": "The tier is in service; the warnings below deserve a look.",
        "FAIL": "The tier is not in the state that was planned. Failures and what to do about them come first.",
        "NONE": "Nothing failed, but nothing was validated in this run either.",
    },
    grades={"PASS": "pass", "WARN": "warn", "FAIL": "fail", "SKIP": "skip"},
    host_states={
        "ok": "ok",
        "changed": "changed",
        "failed": "failed",
        "unreachable": "unreachable",
        "skipped": "skipped",
        "held": "held",
        "interrupted": "interrupted",
    },
    emulated="emulated",
    emulated_note="This site runs on emulated hardware (software RDMA). Its checks are functional; its times and rates "
    "say nothing about real hardware.",
    check_mode_note="This was a check run: nothing was changed, the result is what would have been done.",
    failures_heading="Failures",
    failures_none="None.",
    checks_heading="Checks",
    checks_none="No check was made in this run.",
    checks_of_cluster="cluster",
    stages_heading="Stages and hosts",
    stages_none="No stage was run.",
    topology_heading="Topology",
    topology_note="As planned. Each square is one namespace and carries the number of the host that owns it.",
    topology_more="and {count} more",
    capacity_heading="Capacity",
    versions_heading="Versions",
    run_heading="Run",
    host="Host",
    hosts="Hosts",
    stage="Stage",
    check="Check",
    subject="Subject",
    grade="Grade",
    observed="Observed",
    expected="Expected",
    remedy="What to do",
    evidence="Evidence",
    seconds="Seconds",
    changed_tasks="Changed tasks",
    module_executions="Module executions",
    total="Total",
    rail="Rail {name}",
    box="Box",
    owner="Owner",
    owns="owns {count}",
    master="Mooncake master",
    no_namespaces="owns none",
    site="Site",
    run="Run",
    verb="Command",
    started="Started",
    duration="Duration",
    exit_code="Exit code",
    plan_digest="Plan digest",
    transport="Transport",
    mtu="MTU",
    flash_capacity="Flash exported",
    store_capacity="Flash in the KV pool",
    memory_capacity="Memory landing zones",
    component="Component",
    version="Version",
    counts="{FAIL} failed, {WARN} warned, {PASS} passed, {SKIP} skipped",
    more_failures="and {count} more, all in the report",
    files="Files",
    footer="Made by g35ctl from report.json beside this page.",
)

LANGUAGES: Mapping[str, Strings] = {ENGLISH.language: ENGLISH}
