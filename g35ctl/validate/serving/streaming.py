"""Just enough HTTP/1.1 to ask an engine for a streamed answer and to time its tokens. The standard library alone.

Server-sent events as vLLM and SGLang send them: ``data: {json}`` lines, ``data: [DONE]`` at the end, the counts of
tokens in a last event without choices (``stream_options.include_usage``).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_LINE = 1 << 24


@dataclass(frozen=True)
class Answer:
    """A streamed answer. Times are seconds after the request was begun; ``usage`` as the engine counted."""

    text: str
    ttft: float | None
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int


class BadAnswer(Exception):
    """The server answered, but not with a whole answer; the text is short and the same for equal causes."""


async def ask(host: str, port: int, path: str, body: Mapping[str, Any], *, timeout: float) -> Answer:
    """POST ``body`` and read the streamed answer.

    Raises OSError when there is no connection, TimeoutError after ``timeout`` seconds, BadAnswer otherwise.
    """
    async with asyncio.timeout(timeout):
        began = time.monotonic()
        reader, writer = await asyncio.open_connection(host, port, limit=MAX_LINE)
        try:
            content = json.dumps(body).encode()
            head = (
                f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(content)}\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + content)
            await writer.drain()
            return await _read(reader, began)
        except (asyncio.IncompleteReadError, ValueError) as error:
            raise BadAnswer("the answer was cut off") from error
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader, began: float) -> Answer:
    status, headers = await _head(reader)
    if status != 200:
        raise BadAnswer(f"HTTP {status}")
    text: list[str] = []
    first: float | None = None
    usage: Mapping[str, Any] = {}
    done = False
    async for line in _lines(_body(reader, headers)):
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            break
        event = json.loads(data)
        if event.get("error"):
            raise BadAnswer(f"the engine reports: {str(event['error'])[:120]}")
        usage = event.get("usage") or usage
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            piece = choice.get("text") if "text" in choice else delta.get("content")
            # Chat answers begin with an event that names the role and holds no token yet.
            if first is None and (piece or "text" in choice):
                first = time.monotonic() - began
            text.append(piece or "")
    if not done:
        raise BadAnswer("the answer was cut off")
    details = usage.get("prompt_tokens_details") or {}
    return Answer(
        text="".join(text),
        ttft=first,
        seconds=time.monotonic() - began,
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        cached_tokens=int(details.get("cached_tokens") or 0),
        output_tokens=int(usage.get("completion_tokens") or 0),
    )


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    line = await reader.readline()
    if not line:
        raise BadAnswer("the connection was closed without an answer")
    words = line.decode("latin-1").split()
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        raise BadAnswer("not an HTTP answer")
    headers: dict[str, str] = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(words[1]), headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
    """The pieces of the body, whichever way its length is told."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
    elif "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    else:
        while block := await reader.read(1 << 16):
            yield block


async def _lines(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, however they were cut into pieces."""
    rest = b""
    async for piece in body:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r")
    if rest:
        yield rest
