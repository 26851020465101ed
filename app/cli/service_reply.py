"""Print a service's reply, or why there is no reply."""

from __future__ import annotations

import base64
import json
import sys
from typing import Final

from app.cli.asking.session import HubAnswer
from app.cli.entry import say, tell
from app.cli.failure import CommandFailed
from app.cli.hub_client import answer_of, connected, refusal_of
from app.cli.lines.one_line import harmless

__all__ = ["asked", "shown"]

_OK: Final = 200
_ACCEPTED: Final = 202
_NO_REPLY: Final = ("/request-failed", "/request-expired")
_GRACE_SECONDS: Final = 30.0


async def asked(url: str, content: bytes, headers: dict[str, str], *, wait_seconds: int, as_json: bool) -> int:
    """Make a request, and print its reply, or else its id.

    Return the exit code: 0 with a reply, or without a wait for it, else 1.
    """
    answer = await _answered("POST", url, content, headers, wait_seconds)
    if answer.status_code != _ACCEPTED:
        return _print_reply(answer, as_json=as_json)
    say(json.dumps(answer.json()) if as_json else answer.headers["hookwire-request-id"])
    if wait_seconds:
        _tell_pending(answer, wait_seconds)
    return 1 if wait_seconds else 0


async def shown(url: str, *, wait_seconds: int, as_json: bool) -> int:
    """Print the reply to a request that was made earlier. Return the exit code: 0 with a reply, else 1."""
    answer = await _answered("GET", url, None, {}, wait_seconds)
    if answer.status_code != _ACCEPTED:
        return _print_reply(answer, as_json=as_json)
    _tell_pending(answer, wait_seconds)
    return 1


async def _answered(
    method: str, url: str, content: bytes | None, headers: dict[str, str], wait_seconds: int
) -> HubAnswer:
    """Return the answer with a reply, or the one that there is none yet. Raise ``CommandFailed`` for any other."""
    headers = {**headers, "Prefer": f"wait={wait_seconds}"}
    async with connected() as client:
        answer = await answer_of(client, method, url, content, headers, wait_seconds + _GRACE_SECONDS)
    if answer.status_code in (_OK, _ACCEPTED):
        return answer
    failure = refusal_of(answer)
    raise CommandFailed(str(failure), 1 if _is_lost(answer) else failure.code)


def _tell_pending(answer: HubAnswer, wait_seconds: int) -> None:
    within = f"within {wait_seconds} s" if wait_seconds else "yet"
    request_id, pending = answer.headers["hookwire-request-id"], answer.json()
    tell(f"no reply {within}; `hookwire requests show {request_id} --wait 60` asks again")
    if pending["state"] == "waiting":
        tell(f"no worker has taken it; does one serve {pending['service']}? See `hookwire services list`")


def _print_reply(answer: HubAnswer, *, as_json: bool) -> int:
    if as_json:
        _print_json(answer)
        return 0
    content = answer.content
    if sys.stdout.isatty():
        text = harmless(content.decode("utf-8", "backslashreplace"))
        content = text.encode(sys.stdout.encoding, "backslashreplace")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.flush()
    return 0


def _print_json(answer: HubAnswer) -> None:
    try:
        body: dict[str, str | None] = {"body": answer.content.decode(), "body_base64": None}
    except UnicodeDecodeError:
        body = {"body": None, "body_base64": base64.b64encode(answer.content).decode()}
    named = {"id": answer.headers["hookwire-request-id"], "content_type": answer.headers.get("content-type")}
    say(json.dumps({**named, **body}))


def _is_lost(answer: HubAnswer) -> bool:
    """Return whether the hub said that this request gets no reply."""
    try:
        return str(answer.json()["type"]).endswith(_NO_REPLY)
    except (ValueError, KeyError, TypeError):
        return False
