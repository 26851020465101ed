"""Delivering: an event as a hub would send it, to an application in this process."""

from __future__ import annotations

import asyncio
import base64
import hmac
import inspect
import io
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from hookwire.received import ReceivedEvent

__all__ = ["Answer", "deliver", "deliver_async", "sign"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An application's answer; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def sign(event: ReceivedEvent, secret: str, *, now_seconds: float | None = None) -> dict[str, str]:
    """Return the headers of a delivery of this event, with the signature of ``secret`` (``whsec_...``)."""
    timestamp = int(time.time() if now_seconds is None else now_seconds)
    signed = f"{event.id}.{timestamp}.".encode() + event.body
    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, "sha256")
    headers = {
        "webhook-id": event.id, "webhook-timestamp": str(timestamp),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(), "hookwire-topic": event.topic,
        **event.headers,
    }  # fmt: skip
    if event.content_type is not None:
        headers["content-type"] = event.content_type
    if event.key is not None:
        headers["hookwire-key"] = quote(event.key)
    if event.sequence is not None:
        headers["hookwire-sequence"] = str(event.sequence)
    if event.is_replay:
        headers["hookwire-replay"] = "true"
    return headers


def deliver(app: Any, event: ReceivedEvent, secret: str, path: str = "/") -> Answer:
    """Deliver an event to an ASGI or WSGI application and return its answer. ASGI gets an event loop of its own."""
    headers = sign(event, secret)
    if not _is_asgi(app):
        return _wsgi(app, path, headers, event.body)
    found: list[Answer] = []
    # A thread, because this one may run an event loop.
    thread = threading.Thread(target=lambda: found.append(asyncio.run(_asgi(app, path, headers, event.body))))
    thread.start()
    thread.join()
    if not found:
        raise RuntimeError("the application raised; its traceback is above")
    return found[0]


async def deliver_async(app: Any, event: ReceivedEvent, secret: str, path: str = "/") -> Answer:
    """Deliver an event to an ASGI application in this event loop, and return its answer."""
    return await _asgi(app, path, sign(event, secret), event.body)


def _is_asgi(app: Any) -> bool:
    return inspect.iscoroutinefunction(app) or inspect.iscoroutinefunction(getattr(app, "__call__", None))  # noqa: B004


async def _asgi(app: Any, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "server": ("testserver", 80),
        "client": ("127.0.0.1", 1),
        "headers": [
            (b"host", b"testserver"), (b"content-length", str(len(body)).encode()),
            *((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()),
        ],
    }  # fmt: skip
    waiting = [{"type": "http.request", "body": body}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    pairs = {name.decode("latin-1"): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], pairs, b"".join(message.get("body", b"") for message in sent[1:]))


def _wsgi(app: Any, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST", "SCRIPT_NAME": "", "PATH_INFO": path, "QUERY_STRING": "", "SERVER_NAME": "testserver",
        "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "testserver", "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(),
        "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False, "REMOTE_ADDR": "127.0.0.1",
    }  # fmt: skip
    for name, value in headers.items():
        key = name.upper().replace("-", "_")
        environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
    started: list[tuple[str, list[tuple[str, str]]]] = []
    parts = app(environ, lambda status, pairs, _=None: started.append((status, pairs)))
    content = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    status, pairs = started[0]
    return Answer(int(status[:3]), {name.lower(): value for name, value in pairs}, content)
