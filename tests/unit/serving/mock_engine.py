"""An engine for tests on a thread of its own: streams answers, counts tokens, caches whole blocks of four characters.

One character is one token. ``misbehave`` names what is wrong with it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BLOCK = 4


class MockEngine:
    def __init__(self, misbehave: str = "") -> None:
        self.misbehave = misbehave
        self.known: set[str] = set()
        self.hits = 0
        self.prompts: list[str] = []
        self.guard = threading.Lock()

    def answer(self, body: dict[str, Any]) -> tuple[int, int]:
        prompt = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
        with self.guard:
            self.prompts.append(prompt)
            # All whole blocks are kept, and the one that holds the last token is always computed.
            blocks = [prompt[: end * BLOCK] for end in range(1, len(prompt) // BLOCK + 1)]
            found = 0
            for block in blocks[: (len(prompt) - 1) // BLOCK]:
                if block not in self.known:
                    break
                found += BLOCK
            self.known.update(blocks)
            self.hits += found
        return len(prompt), found


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: MockEngine

    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        wrong = self.engine.misbehave
        if wrong == "500":
            self.send_error(500)
            return
        if wrong == "hang":
            self.close_connection = True
            threading.Event().wait(1)
            return
        prompt, cached = self.engine.answer(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chat = "chat" in self.path
        events = [{"choices": [{"index": 0, **({"delta": {"role": "assistant"}} if chat else {"text": ""})}]}] * chat
        for number in range(body["max_tokens"]):
            piece = f"{number} "
            events.append({"choices": [{"index": 0, **({"delta": {"content": piece}} if chat else {"text": piece})}]})
        usage = {"prompt_tokens": prompt, "completion_tokens": body["max_tokens"]}
        events.append({"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": cached}}})
        if wrong == "cut":
            events = events[:1]
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        text += "" if wrong == "cut" else "data: [DONE]\n\n"
        # In pieces that end anywhere: lines must be put together again.
        for start in range(0, len(text), 37):
            piece = text[start : start + 37].encode()
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


@contextmanager
def serving(engine: MockEngine) -> Iterator[int]:
    """The port on which the engine answers."""
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"engine": engine}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
