"""Where the hosts of a benchmark meet: nobody goes on before everybody has come, or has been waited for long enough.

One member keeps the gate, on its rail address; the others connect to it, one connection for each meeting, one line of
JSON each way. It answers members of the suite only, by address and by the suite's token, and lives as long as the
module that keeps it. Beginning at the same moment is what makes sums over hosts honest: clocks are not trusted.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from .bench_jobs import GatePlan

_LINE = 65536
#: how long a gate that was there and is gone is looked for, seconds
GONE = 10.0


class GateLost(Exception):
    """The gate cannot be reached, or does not know us; the text says why."""


class Keeper:
    """The gate itself: a listening thread and one thread for each member that waits."""

    def __init__(
        self,
        plan: GatePlan,
        stopped: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan = plan
        self.stopped = stopped
        self.clock = clock
        self._came: Dict[str, Dict[str, Any]] = {}
        self._until: Dict[str, float] = {}
        self._open: Set[str] = set()
        self._away: Set[str] = set()
        self._answering = 0
        self._changed = threading.Condition()
        self._socket: Optional[socket.socket] = None
        self.address: Tuple[str, int] = (plan.address, plan.port)

    def start(self) -> None:
        """Listen, on the rail address only. Raises OSError."""
        family = socket.AF_INET6 if ":" in self.plan.address else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((self.plan.address, self.plan.port))
            listening.listen(len(self.plan.members) + 8)
        except OSError:
            listening.close()
            raise
        self._socket = listening
        self.address = listening.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        """Close the gate; whoever waits is let go, and has heard so before this returns."""
        listening, self._socket = self._socket, None
        if listening is not None:
            try:
                # Closing alone leaves a thread in accept, and the port open with it.
                listening.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listening.close()
        with self._changed:
            self._open.update(self._came)
            self._changed.notify_all()
            # The process may end right after this, and its threads with it.
            self._changed.wait_for(lambda: self._answering == 0, GONE)

    def _accept(self) -> None:
        while True:
            listening = self._socket
            if listening is None:
                return
            try:
                connection, peer = listening.accept()
            except OSError:
                return
            if peer[0] not in self.plan.addresses:
                connection.close()
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with self._changed:
            self._answering += 1
        try:
            self._talk(connection)
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(30)
            try:
                asked = json.loads(_read_line(connection))
                if (
                    not isinstance(asked, dict)
                    or asked.get("token") != self.plan.token
                    or asked.get("member") not in self.plan.members
                ):
                    return
                if asked.get("leave"):
                    self._leave(asked["member"])
                    return
                came = self.meet(asked["member"], asked["name"], asked.get("payload") or {}, float(asked["patience"]))
                connection.sendall(json.dumps({"came": came}).encode() + b"\n")
            except (OSError, ValueError, LookupError, TypeError):
                return  # the member asks again, or is not one

    def _leave(self, member: str) -> None:
        with self._changed:
            self._away.add(member)
            self._changed.notify_all()

    def meet(self, member: str, name: str, payload: Dict[str, Any], patience: float) -> Dict[str, Any]:
        """Come to the meeting ``name``; returns the payloads of those who came, once it is over."""
        with self._changed:
            came = self._came.setdefault(name, {})
            came[member] = payload
            self._away.discard(member)
            # Whoever expects the longest round decides how long is waited.
            until = max(self._until.get(name, 0.0), self.clock() + patience)
            self._until[name] = until
            self._changed.notify_all()
            while name not in self._open and not set(self.plan.members) - self._away <= set(came):
                left = self._until[name] - self.clock()
                if self.stopped():
                    break
                if left <= 0:
                    # Not waited for again at the next meeting, unless they come back.
                    self._away |= set(self.plan.members) - set(came)
                    break
                self._changed.wait(min(left, 1.0))
            self._open.add(name)
            self._changed.notify_all()
            return dict(came)


class Gate:
    """A member's side. ``stopped`` is asked while waiting, so that an interrupted module does not wait."""

    def __init__(
        self,
        plan: GatePlan,
        member: str,
        stopped: Callable[[], bool] = lambda: False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan = plan
        self.member = member
        self.stopped = stopped
        self.sleep = sleep
        self.clock = clock
        self.keeper = Keeper(plan, stopped) if plan.conductor == member else None
        self._met = False

    def start(self) -> None:
        """Begin to keep the gate where this member does. Raises GateLost."""
        if self.keeper is not None:
            try:
                self.keeper.start()
            except OSError as error:
                raise GateLost("cannot listen at %s: %s" % (self._where(), error)) from error

    def stop(self) -> None:
        """Say goodbye, so that nobody waits for this member, and close the gate where it is ours."""
        if self.keeper is not None:
            self.keeper.stop()
            return
        try:
            self._ask({"leave": True}, 5.0)
        except (OSError, ValueError):
            pass

    def meet(self, name: str, payload: Optional[Dict[str, Any]] = None, seconds: float = 0.0) -> Dict[str, Any]:
        """Wait for the others; ``seconds`` is how long they may still be busy. Raises GateLost."""
        patience = seconds + self.plan.patience
        if self.keeper is not None:
            came = self.keeper.meet(self.member, name, payload or {}, patience)
            if self.stopped():
                raise GateLost("the benchmark was stopped")
            return came
        until = self.clock() + patience
        told = "no answer"
        while self.clock() < until and not self.stopped():
            try:
                answer = self._ask({"name": name, "payload": payload or {}, "patience": patience}, patience + 30.0)
                self._met = True
                return dict(answer["came"])
            except ConnectionRefusedError as error:
                # Before the first meeting the keeper may be late; after it, it has gone.
                told = str(error)
                if self._met:
                    until = min(until, self.clock() + GONE)
                    self._met = False
                self.sleep(1.0)
            except (OSError, ValueError, LookupError) as error:
                # The keeper may have come later than we have, or the connection was lost: coming twice is harmless.
                told = str(error) or type(error).__name__
                self.sleep(1.0)
        raise GateLost(
            "the hosts could not meet at %s (%s): open TCP %d to %d between the rails, and see that host"
            % (self._where(), told, self.plan.port, self.plan.port + 199)
        )

    def _where(self) -> str:
        return "%s, port %d (%s)" % (self.plan.address, self.plan.port, self.plan.conductor)

    def _ask(self, question: Dict[str, Any], timeout: float) -> Dict[str, Any]:
        question = {"token": self.plan.token, "member": self.member, **question}
        with socket.create_connection((self.plan.address, self.plan.port), timeout=5.0) as connection:
            connection.settimeout(timeout)
            connection.sendall(json.dumps(question).encode() + b"\n")
            if question.get("leave"):
                return {}
            answer = json.loads(_read_line(connection))
        if not isinstance(answer, dict):
            raise ValueError("an answer that is no object")
        return answer


def _read_line(connection: socket.socket) -> bytes:
    """One line; ValueError where it is cut off or too long."""
    parts: List[bytes] = []
    size = 0
    while True:
        part = connection.recv(_LINE)
        if not part:
            raise ValueError("the connection was closed")
        parts.append(part)
        size += len(part)
        if part.endswith(b"\n"):
            return b"".join(parts)
        if size > 16 * _LINE:
            raise ValueError("an answer without end")
