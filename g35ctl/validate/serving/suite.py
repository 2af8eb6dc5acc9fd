"""The serving suite from the first question to the restored site.

Paths are visited in turn within each trial, each time in another order, so that what drifts does not favour one. After
every point serving.json holds all that is known: whatever ends the run, the report says what was measured and what was
not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from g35ctl.engine import journal
from g35ctl.engine.planning import plan_again, recorded_stages
from g35ctl.engine.proof import Proof
from g35ctl.engine.run import Failure, StageResult
from g35ctl.engine.session import Session
from g35ctl.engine.ssh import logins, tunnels
from g35ctl.errors import G35Error
from g35ctl.site.engines import engines
from g35ctl.site.lints.cache import lease_seconds
from g35ctl.validate import serving_result
from g35ctl.validate.serving import aiperf, probing, records, trace
from g35ctl.validate.serving.judge import judge, rows
from g35ctl.validate.serving.measure import FOLDER, Method, Place, measure
from g35ctl.validate.serving.probing import Prober
from g35ctl.validate.serving.services import Reach, Services, services
from g35ctl.validate.serving.streaming import BadAnswer
from g35ctl.validate.serving.variants import Variant, variants
from g35ctl.validate.serving_result import (
    Agreement,
    CachePath,
    Equality,
    PointResult,
    ServingResult,
    Workload,
)
from g35ctl.verdict import Grade, Verdict

READY_SECONDS = 180.0
TOLERANCE = 0.25
"""How far the two generators' mean TTFT may differ: they do not send the same text at the same moment."""


def run(session: Session) -> Proof:
    """Measure, judge, and leave the site as it was. Never raises for what goes wrong on the site."""
    if not any(host.inference is not None and host.inference.engines for host in session.plan.hosts):
        return Proof((_no_engine(),))
    began = time.monotonic()
    hosts = tuple(host.name for host in session.plan.hosts if host.cache is not None or host.inference is not None)
    suite = _Suite(session)
    failures = list(suite.failures)
    if not failures:
        try:
            suite.run()
        except G35Error as error:
            suite.fail(error.what, error.why, error.next_command)
        finally:
            suite.end()
        failures = suite.failures
    result = suite.result
    verdicts = judge(result, session.site.validation.serving.thresholds, serving_result.FILE) if result else ()
    outcome = "interrupted" if session.interrupt.requested() else "failed" if failures else "ok"
    stage = StageResult("validate", dict.fromkeys(hosts, outcome), round(time.monotonic() - began, 2))
    return Proof(verdicts, () if outcome == "interrupted" else tuple(failures), (stage,))


@dataclass
class _Suite:
    session: Session
    failures: list[Failure] = field(default_factory=list)
    points: list[PointResult] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: dict[int, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    agreement: Agreement | None = None
    versions: tuple[str, ...] = ()
    restored: bool = True
    result: ServingResult | None = None

    def __post_init__(self) -> None:
        """Everything that can be known to fail before anything is touched."""
        self.bench = self.session.site.validation.serving
        self.trace: tuple[trace.Request, ...] = ()
        try:
            self.services: Services = services(self.session.plan)
            self._require_deployed()
            self.trace = self._read_trace()
            self.workload = self._workload()
            self.variants: tuple[Variant, ...] = variants(self.session.site, self.session.plan, self.workload)
            self.program = self._program()
        except ValueError as error:
            self.fail(str(error), "", "complete the inventory, then g35ctl check")
        except G35Error as error:
            self.fail(error.what, error.why, error.next_command)

    def fail(self, what: str, why: str, remedy: str, check: str = "serving.run") -> None:
        """Something could not be run: exit 1, not 7."""
        told = f"{what}: {why}" if why else what
        self.failures.append(Failure("", "validate", check, told, "the serving suite runs to its end", remedy))

    # -- before ---------------------------------------------------------------------------------------------------

    def _require_deployed(self) -> None:
        """Paths are compared on a site that is what its plan says, and that can be put back by that plan."""
        known = recorded_stages(self.session.inventory, self.session.plan)
        pending = [
            f"{stage} on {host}"
            for stage in ("cache", "inference")
            for host in self.session.plan.stage_hosts.get(stage, ())
            if not known.get(host, {}).get(stage)
        ]
        if pending:
            raise G35Error(
                "the site is not deployed as planned", why=", ".join(pending[:6]), next_command="g35ctl deploy"
            )

    def _read_trace(self) -> tuple[trace.Request, ...]:
        if not self.bench.trace:
            return ()
        path = Path(self.bench.trace).expanduser()
        inventory = Path(self.session.inventory).absolute()
        return trace.read((inventory if inventory.is_dir() else inventory.parent) / path)

    def _workload(self) -> Workload:
        bench, site = self.bench, self.session.site
        block = max((item.page_size for item in engines(site)), default=1)
        return Workload(
            users=tuple(sorted(set(bench.users))) if not self.trace else (0,),
            paths=tuple(CachePath(name) for name in dict.fromkeys(bench.paths)),
            rate=bench.rate,
            nodes=max(1, len({item.target.host for item in self.services.engines})),
            context=bench.context if not self.trace else max(item.input_length for item in self.trace),
            shared_prefix=min(bench.shared_prefix, bench.context),
            new_tokens=bench.new_tokens,
            output_tokens=bench.output_tokens,
            rounds=bench.rounds if not self.trace else 1,
            trials=bench.trials,
            seed=bench.seed,
            block=block,
            trace=bench.trace,
            trace_ceiling=trace.totals(self.trace).ceiling if self.trace else 0.0,
        )

    def _program(self) -> str:
        """aiperf, or empty for the built-in generator. Raises G35Error when aiperf is asked for and not there."""
        found = aiperf.find()
        if self.bench.generator == "builtin" or self.trace:
            return ""
        usable = found is not None and bool(self.bench.tokenizer)
        if self.bench.generator == "aiperf" and not usable:
            raise G35Error(
                "aiperf cannot be used",
                why="it is not on the PATH" if found is None else "g35_validate.serving.tokenizer names no directory",
                next_command="pip install aiperf, or set g35_validate.serving.generator to builtin",
            )
        return found if found is not None and usable else ""

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Measure every point. Raises G35Error when the site cannot be reached."""
        folder = self.session.folder.path / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        found = logins(self.session.inventory, self.session.state, [host.name for host in self.session.plan.hosts])
        with ExitStack() as stack:
            targets = self.services.targets()
            if self.bench.reach == "ssh":
                ways = stack.enter_context(tunnels(found, targets))
            else:
                ways = {item: (item.address, item.port) for item in targets}
            reach = Reach(self.services, ways, found)
            prober = Prober(reach, self.bench.timeout)
            self.versions = reach.versions()
            method = self._method(prober, folder)
            self._store()
            for trial in range(self.workload.trials):
                for variant in _turned(self.variants, trial):
                    if self._stopped() or not self._enter(variant, prober, method):
                        continue
                    if trial == 0:
                        self._equality(variant.path, prober, method)
                    for users in self.workload.users:
                        if not self._stopped():
                            self._point(reach, method, Place(variant.path, users, trial, len(self.points)))
            if self.bench.agreement and not self._stopped() and self._enter(self._own(), prober, method):
                self._agree(reach, method)

    def _stopped(self) -> bool:
        return self.session.interrupt.requested()

    def _own(self) -> Variant:
        """The site as it is."""
        return next(
            (item for item in self.variants if item.path is CachePath.G35),
            replace(self.variants[0], site=self.session.site),
        )

    def _method(self, prober: Prober, folder: Path) -> Method:
        masters = self.session.site.group("mooncake_masters")
        try:
            ratio = probing.characters_per_token(prober, f"{self.workload.seed}/{self.session.folder.identifier}")
        except (OSError, TimeoutError, BadAnswer) as error:
            raise G35Error(
                "the engines do not answer",
                why=f"{self.services.front.host} port {self.services.front.port}: {error or type(error).__name__}",
                next_command="g35ctl status, then g35ctl deploy --only inference",
            ) from error
        return Method(
            workload=self.workload,
            folder=folder,
            run=self.session.folder.identifier,
            ratio=ratio,
            timeout=self.bench.timeout,
            lease=lease_seconds(masters[0].mooncake.master.lease) if masters else 0.0,
            program=self.program,
            tokenizer=Path(self.bench.tokenizer).expanduser(),
            trace=self.trace,
            trace_speed=self.bench.trace_speed,
            longest=max((item.model.max_length for item in engines(self.session.site) if item.model), default=0),
        )

    def _enter(self, variant: Variant, prober: Prober, method: Method) -> bool:
        """Bring the site to a path; False when it did not get there, which is noted."""
        session = self.session
        session.display.say(f"serving: cache path {variant.path} ({variant.setting.how})")
        if variant.site is session.site:
            failures = journal.put_back(session)
        else:
            failures = journal.leave(session, plan_again(session.inventory, variant.site), variant.path)
        if not failures:
            characters = max(2, 2 * self.workload.block + 1)
            seed = f"{self.workload.seed}/{method.run}/{variant.path}/{len(self.points)}"
            seconds = min(READY_SECONDS, self.bench.timeout)
            problem = probing.wait_ready(prober, seed, round(characters * method.ratio) + 1, seconds, self._stopped)
            if not problem or self._stopped():
                return not self._stopped()
            failures = (
                Failure(
                    "", "validate", "serving.ready", problem, "the engines find each other's values in the pool",
                    "see the engines' logs of that time, then g35ctl validate --suite store",
                ),
            )  # fmt: skip
        self.failures += failures
        self.notes.append(f"path {variant.path} was not measured: {failures[0].observed}")
        return False

    def _equality(self, path: CachePath, prober: Prober, method: Method) -> None:
        characters = round(min(self.workload.context, 32 * self.workload.block) * method.ratio)
        try:
            found = probing.equality(prober, path, f"{self.workload.seed}/{method.run}/{path}", characters)
        except (OSError, TimeoutError, BadAnswer) as error:
            self.notes.append(f"answers on path {path} were not compared: {error or type(error).__name__}")
            self.fail(f"answers on path {path} could not be compared", str(error), "g35ctl status")
            return
        self.equalities.append(found)

    def _point(self, reach: Reach, method: Method, place: Place) -> PointResult:
        told = f"{place.users} users" if place.users else "the trace"
        self.session.display.say(f"serving: {place.path}, {told}, trial {place.trial + 1} of {self.workload.trials}")
        found = measure(reach, method, place, self._stopped)
        self.points.append(found)
        self._keep_samples(found)
        if found.incomplete:
            self.notes.append(f"path {place.path}, {told}, trial {place.trial + 1}: {found.incomplete}")
            if not self._stopped():
                self.fail(
                    f"path {place.path}, {told}, trial {place.trial + 1} is not whole", found.incomplete,
                    f"see {found.evidence} in the run folder and the units named, then validate again",
                    check="serving.point",
                )  # fmt: skip
        self._store()
        return found

    def _keep_samples(self, found: PointResult) -> None:
        path = self.session.folder.path / found.evidence
        try:
            kept = aiperf.read(path.parent) if found.generator == "aiperf" else records.read(path)
        except G35Error:
            kept = ()
        answered = [item for item in kept if item.answered]
        self.samples[found.order] = (
            [item.ttft for item in answered if item.turn > 0 and item.ttft is not None],
            [item.ttft for item in answered if item.turn == 0 and item.ttft is not None],
        )

    def _agree(self, reach: Reach, method: Method) -> None:
        """The same point with both generators, beside the comparison: their points are not part of it."""
        program = aiperf.find()
        if program is None or not self.bench.tokenizer:
            self.notes.append("the generators were not compared: aiperf is not installed, or it has no tokenizer")
            return
        users, order = self.workload.users[0], len(self.points)
        own = measure(reach, replace(method, program=""), Place(CachePath.G35, users, 90, order), self._stopped)
        other = measure(
            reach, replace(method, program=program), Place(CachePath.G35, users, 91, order + 1), self._stopped
        )
        if own.incomplete or other.incomplete or own.ttft is None or other.ttft is None:
            self.notes.append(f"the generators were not compared: {own.incomplete or other.incomplete or 'no answers'}")
            return
        folder = self.session.folder.path / Path(other.evidence).parent
        self.agreement = Agreement(
            users, own.ttft.mean, other.ttft.mean, own.hit_rate or 0.0, other.hit_rate or 0.0,
            aiperf.version(folder), TOLERANCE,
        )  # fmt: skip

    # -- after ----------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Put the site back, whatever happened, and write down what is known."""
        failures = journal.put_back(self.session)
        self.restored = not failures
        for item in failures:
            where = f" on {item.host}" if item.host else ""
            self.fail(
                f"the site is not back on its own configuration{where}",
                item.observed,
                "g35ctl deploy --allow-disruptive",
            )
        self._store(final=True)

    def _store(self, *, final: bool = False) -> None:
        done = {(item.path, item.users, item.trial) for item in self.points}
        absent = [
            f"path {path}, {f'{users} users' if users else 'the trace'}, trial {trial + 1}: not measured"
            for trial in range(self.workload.trials)
            for path in self.workload.paths
            for users in self.workload.users
            if (path, users, trial) not in done
        ]
        if not final:
            absent = [*absent, "the run was cut off"]
        self.result = ServingResult(
            workload=self.workload,
            settings=tuple(item.setting for item in self.variants),
            points=tuple(self.points),
            rows=rows(self.points, self.samples),
            equalities=tuple(self.equalities),
            agreement=self.agreement,
            missing=(*self.notes, *absent),
            restored=self.restored if final else journal.read(self.session.state) is None,
            emulated=self.session.site.validation.emulated,
            engines=self.versions,
            commands=self._commands(),
        )
        serving_result.write(self.session.folder.path, self.result)

    def _commands(self) -> tuple[str, ...]:
        tool = self.program or "python -m g35ctl.validate.serving.generator"
        return tuple(f"{tool} {FOLDER}/{item.order:03d}-{item.path}-{item.users}-{item.trial}" for item in self.points)


def _no_engine() -> Verdict:
    return Verdict(
        "serving", "serving.run", Grade.SKIP, "the site has no engine: g35_inference states none",
        "users with long contexts are answered on every cache path",
    )  # fmt: skip


def _turned(items: Sequence[Variant], by: int) -> tuple[Variant, ...]:
    """The same round, begun at another place."""
    place = by % len(items)
    return (*items[place:], *items[:place])
