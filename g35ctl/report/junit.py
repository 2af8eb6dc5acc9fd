"""The report as JUnit XML, for continuous integration: one test suite per stage and per validation suite."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

from g35ctl.report.document import CheckPart, Document, StagePart

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class _Case:
    name: str
    classname: str
    failure: str = ""
    skipped: str = ""
    output: str = ""


def render(document: Document) -> str:
    """The XML text. A host that failed a stage is a failed case, so that a run without checks still tells."""
    suites = [
        (f"stage.{stage.stage}", stage.seconds, [_stage_case(document, stage, host) for host in stage.hosts])
        for stage in document.stages
    ]
    for name in dict.fromkeys(check.suite for check in document.verdicts):
        suites.append((name, 0.0, [_check_case(check) for check in document.verdicts if check.suite == name]))
    root = ET.Element("testsuites", {"name": _text(f"g35ctl {document.run.verb} {document.run.site}")})
    _counts(root, [case for _, _, cases in suites for case in cases])
    root.set("time", f"{document.run.seconds:.3f}")
    for name, seconds, cases in suites:
        suite = ET.SubElement(root, "testsuite", {"name": _text(name)})
        _counts(suite, cases)
        suite.set("time", f"{seconds:.3f}")
        if document.run.started:
            suite.set("timestamp", _text(document.run.started))
        if document.versions:
            properties = ET.SubElement(suite, "properties")
            for component, version in document.versions.items():
                ET.SubElement(properties, "property", {"name": _text(component), "value": _text(version)})
        for case in cases:
            _append(suite, case)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _counts(element: ET.Element, cases: list[_Case]) -> None:
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(bool(case.failure) for case in cases)))
    element.set("errors", "0")
    element.set("skipped", str(sum(bool(case.skipped) for case in cases)))


def _append(suite: ET.Element, case: _Case) -> None:
    element = ET.SubElement(suite, "testcase", {"name": _text(case.name), "classname": _text(case.classname)})
    if case.failure:
        message, _, _ = case.failure.partition("\n")
        ET.SubElement(element, "failure", {"message": _text(message)}).text = _text(case.failure)
    if case.skipped:
        ET.SubElement(element, "skipped", {"message": _text(case.skipped)})
    if case.output:
        ET.SubElement(element, "system-out").text = _text(case.output)


def _check_case(check: CheckPart) -> _Case:
    name = f"{check.check} [{check.subject}]" if check.subject else check.check
    told = f"observed {check.observed}, expected {check.expected}"
    if check.remedy:
        told += f"\nremedy: {check.remedy}"
    if check.evidence:
        told += f"\nevidence: {check.evidence}"
    place = f"{check.suite}.{check.host or 'cluster'}"
    if check.grade == "FAIL":
        return _Case(name, place, failure=told)
    if check.grade == "SKIP":
        return _Case(name, place, skipped=check.observed or "skipped")
    return _Case(name, place, output=told if check.grade == "WARN" else "")


def _stage_case(document: Document, stage: StagePart, host: str) -> _Case:
    state = stage.hosts[host]
    place = f"stage.{stage.stage}"
    if state in ("failed", "unreachable"):
        reasons = [
            f"{item.check} {item.subject}: observed {item.observed}, expected {item.expected}; {item.remedy}"
            for item in document.failures
            if item.host == host and item.stage == stage.stage
        ]
        return _Case(host, place, failure="\n".join([f"{host} {state}", *reasons]))
    if state == "skipped":
        return _Case(host, place, skipped="skipped")
    return _Case(host, place)


def _text(value: str) -> str:
    """Without the characters that XML 1.0 cannot hold; ElementTree escapes the rest."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
