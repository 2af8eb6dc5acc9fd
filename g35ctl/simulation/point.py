"""One point: one path, so many users, one seed. Requests are sent, loaded, prefilled and answered in virtual time.

The load is the published method: each GPU host's client keeps at most ``parallel`` requests under way, takes the next
of its waiting users (at random, or in turn) and sends no faster than the offered rate. Users beyond that wait at the
client, which is why the time to first token of a path that holds all contexts hardly depends on their number.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from random import Random

from g35ctl.plan.workload.figures import GB, Context
from g35ctl.plan.workload.hardware import Hardware
from g35ctl.plan.workload.prefill import Prefill, findable, groups, prompt
from g35ctl.simulation.tiers import Link, Tier, moved
from g35ctl.site.workload_model import Workload
from g35ctl.validate.serving_result import CachePath, Distribution, PointResult, TierTokens, TurnResult

GENERATOR = "simulated"
INFINITE = math.inf


@dataclass(frozen=True)
class Setting:
    """Everything a point depends on besides path, users and seed."""

    workload: Workload
    context: Context
    hardware: Hardware


@dataclass
class _Host:
    """Tiers and links of one host; in the shared paths all hosts have the same memory and flash objects."""

    device: Tier
    memory: Tier
    flash: Tier
    bus: Link
    ports: Link
    local_flash: Link
    busy: list[float]


@dataclass
class _Client:
    """The load generator of one host: users that wait, requests under way, and when the next may be sent."""

    waiting: deque[int] = field(default_factory=deque)
    under_way: int = 0
    next_at: float = 0.0
    woken: bool = False


@dataclass
class _Turn:
    """What was seen of one turn."""

    ttft: list[float] = field(default_factory=list)
    prompt: int = 0
    cached: int = 0


@dataclass(frozen=True)
class Loaded:
    """Tokens found in each tier."""

    device: int
    memory: int
    flash: int

    @property
    def total(self) -> int:
        """All tokens found."""
        return self.device + self.memory + self.flash


class Point:
    """One run of the model."""

    def __init__(self, setting: Setting, path: CachePath, users: int, seed: int) -> None:
        self.setting = setting
        self.path = path
        self.users = users
        self.workload = setting.workload
        self.random = Random(f"{seed}/{path.value}/{users}")  # noqa: S311 - a model, not a secret
        self.prefill = Prefill.of(setting.workload)
        self.per_token = setting.context.size / setting.context.tokens
        self.box = Link(setting.hardware.box if path is CachePath.G35 else 0.0)
        self.hosts = self._make_hosts()
        self.clients = [_Client() for _ in self.hosts]
        self.turn_of = [1] * users
        self.turns = [_Turn() for _ in range(self.workload.rounds)]
        self.found = [0, 0, 0]
        self.computed = 0
        self.end = 0.0
        self._events: list[tuple[float, int, str, int, int]] = []
        self._order = count()

    # -- what there is -----------------------------------------------------------------------------------------------

    def _make_hosts(self) -> list[_Host]:
        tiers, links, hardware = self.workload.tiers, self.workload.links, self.setting.hardware
        shared_memory: Tier | None = None
        shared_flash: Tier | None = None
        if self.path is CachePath.MEMORY:
            whole = tiers.memory_path * hardware.hosts
            shared_memory = self._tier(whole) if whole else Tier(INFINITE, self.workload.block_tokens)
            shared_flash = self._tier(0)
        elif self.path is CachePath.G35:
            shared_memory = self._tier(tiers.memory * hardware.hosts)
            shared_flash = self._tier(hardware.pool)
        return [
            _Host(
                device=self._tier(tiers.device),
                memory=shared_memory or self._tier(tiers.memory),
                flash=shared_flash or self._tier(tiers.local_flash),
                bus=Link(links.memory_gbps * GB),
                ports=Link(hardware.ports * min(links.port_gbps, links.host_gbps) * GB),
                local_flash=Link(links.local_flash_gbps * GB),
                busy=[0.0] * groups(self.workload),
            )
            for _ in range(hardware.hosts)
        ]

    def _tier(self, size: int) -> Tier:
        return Tier(size / self.per_token, self.workload.block_tokens)

    # -- the run -----------------------------------------------------------------------------------------------------

    def run(self, trial: int = 0, order: int = 0) -> PointResult:
        """All turns after the first; the first one fills the caches and takes no time."""
        self._fill()
        for number in range(len(self.clients)):
            self._dispatch(number, 0.0)
        while self._events:
            now, _, what, client, user = heapq.heappop(self._events)
            if what == "wake":
                self.clients[client].woken = False
            else:
                self.clients[client].under_way -= 1
                if self.turn_of[user] < self.workload.rounds:
                    self.clients[client].waiting.append(user)
                self.end = max(self.end, now)
            self._dispatch(client, now)
        return self._result(trial, order)

    def _fill(self) -> None:
        order = list(range(self.users))
        if self.workload.order == "random":
            self.random.shuffle(order)
        for user in order:
            home = user % len(self.hosts)
            self._keep(self.hosts[home], user, prompt(self.workload, 0))
            self.clients[home].waiting.append(user)
        first = self.turns[0]
        first.prompt = self.users * prompt(self.workload, 0)

    def _dispatch(self, number: int, now: float) -> None:
        client = self.clients[number]
        while client.waiting and client.under_way < self.workload.parallel:
            if now < client.next_at:
                if not client.woken:
                    client.woken = True
                    self._at(client.next_at, "wake", number, -1)
                return
            if self.workload.order == "random":
                client.waiting.rotate(-self.random.randrange(len(client.waiting)))
            user = client.waiting.popleft()
            client.under_way += 1
            client.next_at = max(client.next_at, now) + 1 / self.workload.rate
            self._request(number, user, now)

    def _at(self, when: float, what: str, client: int, user: int) -> None:
        heapq.heappush(self._events, (when, next(self._order), what, client, user))

    def _request(self, number: int, user: int, now: float) -> None:
        turn = self.turn_of[user]
        self.turn_of[user] += 1
        host = self.hosts[self._route(user)]
        length = prompt(self.workload, turn)
        found = self._look_up(host, user, findable(self.workload, turn))
        ready = self._load(host, found, now)
        begins = max(heapq.heappop(host.busy), ready)
        ends = begins + self.prefill.seconds(length - found.total, found.total)
        heapq.heappush(host.busy, ends)
        self._keep(host, user, length)
        ttft = ends - now + self.workload.timing.overhead_seconds
        seen = self.turns[turn]
        seen.ttft.append(ttft)
        seen.prompt += length
        seen.cached += found.total
        for place, tokens in enumerate((found.device, found.memory, found.flash)):
            self.found[place] += tokens
        self.computed += length - found.total
        self._at(now + ttft + self.workload.timing.answer_seconds, "answered", number, user)

    def _route(self, user: int) -> int:
        home, hosts = user % len(self.hosts), len(self.hosts)
        if hosts == 1 or self.random.random() < self.workload.affinity:
            return home
        return (home + self.random.randrange(1, hosts)) % hosts

    def _look_up(self, host: _Host, user: int, most: int) -> Loaded:
        device = min(host.device.holds(user), most)
        memory = max(min(host.memory.holds(user), most), device)
        flash = max(min(host.flash.holds(user), most), memory)
        for tier in (host.device, host.memory, host.flash):
            tier.touch(user)
        return Loaded(device, memory - device, flash - memory)

    def _load(self, host: _Host, found: Loaded, now: float) -> float:
        """When everything that was found below the device has come up."""
        scale = self.per_token * self.workload.read_amplification
        memory, flash = found.memory * scale, found.flash * scale
        shares = [(host.bus, memory + flash)]
        if self.path is CachePath.LOCAL:
            shares.append((host.local_flash, flash))
        else:
            # What lies in another host's memory comes over the network; flash does by way of its owner.
            elsewhere = 1 - 1 / len(self.hosts)
            shares.append((host.ports, memory * elsewhere + flash * self.setting.hardware.inbound))
            shares.append((self.box, flash))
        return moved(now, shares)

    def _keep(self, host: _Host, user: int, tokens: int) -> None:
        """Write through to every tier of the path."""
        host.device.put(user, tokens)
        host.memory.put(user, tokens)
        host.flash.put(user, tokens)

    # -- what came of it ---------------------------------------------------------------------------------------------

    def _result(self, trial: int, order: int) -> PointResult:
        steady = [value for turn in self.turns[1:] for value in turn.ttft]
        requests = self.users * (self.workload.rounds - 1)
        device, memory, flash = self.found
        local = self.path is CachePath.LOCAL
        return PointResult(
            path=self.path,
            users=self.users,
            trial=trial,
            order=order,
            generator=GENERATOR,
            requested=requests,
            completed=len(steady),
            seconds=self.end,
            offered_rate=self.workload.rate * len(self.hosts),
            achieved_rate=len(steady) / self.end if self.end else 0.0,
            ttft=Distribution.of(steady),
            cold_ttft=None,
            turns=tuple(
                TurnResult(
                    number,
                    len(turn.ttft) if number else self.users,
                    Distribution.of(turn.ttft),
                    turn.prompt,
                    turn.cached,
                )
                for number, turn in enumerate(self.turns)
            ),
            tokens=TierTokens(device, memory if local else 0, 0 if local else memory, flash, 0, self.computed),
        )
