"""A headless Chromium, driven over its debugging pipe: no driver, no port, no library between test and browser."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT = 180.0
"""Seconds for one command: emulated and shared machines are slow."""
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--mute-audio",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
    "--disable-extensions", "--disable-dev-shm-usage", "--remote-debugging-pipe",
)  # fmt: skip


@dataclass
class Browser:
    """A running browser. Messages are JSON, each ended by a NUL byte: written to ``write``, read from ``read``."""

    read: int
    write: int
    buffer: bytes = b""
    number: int = 0
    events: list[Mapping[str, Any]] = field(default_factory=list)

    def send(self, method: str, session: str = "", **parameters: Any) -> Any:
        """Give a command and wait for its result; events that come meanwhile are kept."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(TIMEOUT)
            assert answer is not None, f"the browser did not answer {method} within {TIMEOUT:g} s"
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def wait(self, method: str, session: str) -> None:
        """Wait for an event of a session, unless it came already."""
        while not any(event.get("method") == method and event.get("sessionId") == session for event in self.events):
            event = self._next(TIMEOUT)
            assert event is not None, f"no {method} within {TIMEOUT:g} s"
            self.events.append(event)

    def settle(self, seconds: float) -> None:
        """Collect what the browser still has to say."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            event = self._next(left)
            if event is not None:
                self.events.append(event)

    def _next(self, timeout: float) -> dict[str, Any] | None:
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return None
            data = os.read(self.read, 1 << 20)
            assert data, "the browser went away"
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded


@dataclass
class Page:
    """One open page: what it asked for, what it complained about, and ways to look at it."""

    browser: Browser
    session: str

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.browser.send(
            "Runtime.evaluate", self.session, expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def requests(self) -> list[str]:
        """Every address that the page asked for, its own included."""
        return [
            str(event["params"]["request"]["url"])
            for event in self.browser.events
            if event.get("method") == "Network.requestWillBeSent" and event.get("sessionId") == self.session
        ]

    def complaints(self) -> list[str]:
        """Console messages, log entries and uncaught exceptions of the page."""
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, told = event.get("method"), event.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                found.append(json.dumps(told))
            elif method == "Log.entryAdded":
                found.append(str(told["entry"]["text"]))
        return found

    def picture(self) -> bytes:
        """The whole page as PNG."""
        answer = self.browser.send("Page.captureScreenshot", self.session, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def pdf(self) -> bytes:
        """The page as it is printed, on the paper that its style sheet asks for."""
        answer = self.browser.send("Page.printToPDF", self.session, preferCSSPageSize=True, printBackground=True)
        return base64.b64decode(answer["data"])


@contextmanager
def launch(profile: Path, executable: str = "chromium") -> Iterator[Browser]:
    """Start the browser with an empty profile and end it with the block."""
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()
    descriptors = (to_browser, to_us)

    def place() -> None:
        # The debugging pipe is descriptors 3 (commands) and 4 (answers). First out of each other's way.
        high = [os.dup2(fd, 10 + index) for index, fd in enumerate(descriptors)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(
        [executable, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile)},
        preexec_fn=place,  # noqa: PLW1509 - pass_fds keeps numbers, and the browser wants 3 and 4
        close_fds=False,
    )
    for descriptor in descriptors:
        os.close(descriptor)
    try:
        yield Browser(from_browser, from_us)
    finally:
        for descriptor in (from_browser, from_us):
            os.close(descriptor)
        try:
            process.wait(timeout=20)  # it ends when its pipe does
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def open_page(browser: Browser, address: str, width: int = 1160) -> Iterator[Page]:
    """Load an address in a tab of its own, watched from before the first request."""
    target = browser.send("Target.createTarget", url="about:blank")["targetId"]
    session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    page = Page(browser, session)
    for domain in ("Page", "Network", "Runtime", "Log"):
        browser.send(f"{domain}.enable", session)
    browser.send(
        "Emulation.setDeviceMetricsOverride", session, width=width, height=900, deviceScaleFactor=1, mobile=False
    )
    browser.send("Page.navigate", session, url=address)
    browser.wait("Page.loadEventFired", session)
    browser.settle(0.3)
    try:
        yield page
    finally:
        browser.send("Target.closeTarget", targetId=target)
