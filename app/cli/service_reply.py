"""Print a service's reply, or why there is no reply."""

from __future__ import annotations

import base64
import json
import sys
from typing import Final

import httpx

from app.cli.entry import say, tell
from app.cli.failure import CommandFailed
from app.cli.hub_client import answer_of, connected, refusal_of

__all__ = ["asked"]

_NO_REPLY: Final = ("/request-failed", "/request-expired")
_GRACE_SECONDS: Final = 30.0


async def asked(
    method: str, url: str, content: bytes | None, headers: dict[str, str], *, wait_seconds: int, as_json: bool
) -> int:
    """Ask once and print; return the exit code: 0 with a reply, or without a wait for it, else 1."""
    headers = {**headers, "Prefer": f"wait={wait_seconds}"}
    async with connected() as client:
        answer = await answer_of(client, method, url, content, headers, wait_seconds + _GRACE_SECONDS)
    if answer.status_code == httpx.codes.ACCEPTED:
        return _pending(answer, wait_seconds, as_json=as_json)
    if answer.status_code != httpx.codes.OK:
        failure = refusal_of(answer)
        raise CommandFailed(str(failure), 1 if _is_lost(answer) else failure.code)
    _print_reply(answer, as_json=as_json)
    return 0


def _pending(answer: httpx.Response, wait_seconds: int, *, as_json: bool) -> int:
    request_id = answer.headers["hookwire-request-id"]
    say(json.dumps(answer.json()) if as_json else request_id)
    if wait_seconds:
        tell(f"no reply within {wait_seconds} s; `hookwire requests show {request_id} --wait 60` asks again")
    return 1 if wait_seconds else 0


def _print_reply(answer: httpx.Response, *, as_json: bool) -> None:
    if not as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(answer.content)
        sys.stdout.flush()
        return
    try:
        body: dict[str, str | None] = {"body": answer.content.decode(), "body_base64": None}
    except UnicodeDecodeError:
        body = {"body": None, "body_base64": base64.b64encode(answer.content).decode()}
    shown = {"id": answer.headers["hookwire-request-id"], "content_type": answer.headers.get("content-type"), **body}
    say(json.dumps(shown))


def _is_lost(answer: httpx.Response) -> bool:
    """Return whether the hub said that this request gets no reply."""
    try:
        return str(answer.json()["type"]).endswith(_NO_REPLY)
    except (ValueError, KeyError, TypeError):
        return False
