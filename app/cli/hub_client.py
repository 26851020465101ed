"""Requests of commands to a hub's API: each has a deadline, and each failure a sentence and an exit code.

* 3: no hub answers there, or the hub itself lacks a dependency (503)
* 2: the hub refuses the request (4xx)
* 1: anything else; also no answer in time, so that the outcome is unknown
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from app.cli.asking.session import HubAnswer, HubSession, HubUnreachable, place_of, shown
from app.cli.entry import settings_from
from app.cli.failure import CommandFailed
from app.settings.address import LISTEN
from app.settings.file import are_given
from egress.failure import DeadlineExceeded, OutboundError

if TYPE_CHECKING:
    from app.settings.settings import Settings

__all__ = [
    "AS_JSON",
    "answer_of",
    "ask",
    "caller",
    "connected",
    "get",
    "get_all",
    "hub_of",
    "hub_url",
    "post",
    "refusal_of",
    "success_of",
]

AS_JSON: Final = {"Content-Type": "application/json"}
"""The headers of a JSON body."""
_CURE = "Start it with `hookwire serve`, or name another hub by --url or HOOKWIRE_URL"
_GET_SECONDS: Final = 30.0
_PAGE = 500
_NOT_FOUND: Final = 404
_UNAUTHORIZED: Final = 401
_UNREACHABLE_STATUSES = frozenset({502, 503, 504})


def hub_of(given: str | None, config: Path | None) -> str:
    """Return the URL of the hub that is given or that the settings name, without trailing slash.

    Settings are read only where they are needed and some are given. Raise ``CommandFailed`` for a text that is no http
    URL, and ``SettingsRefused``.
    """
    if given or not are_given(config, os.environ):
        return _checked(given or f"http://{LISTEN}")
    return hub_url(None, settings_from(config))


def hub_url(given: str | None, settings: Settings) -> str:
    """Return the hub's URL as ``hub_of`` does, where the settings are at hand."""
    return _checked(given or settings.public_url or f"http://{settings.listen}")


def _checked(url: str) -> str:
    try:
        place_of(url)
    except ValueError as error:
        raise CommandFailed(f"--url or HOOKWIRE_URL: {error}", 2) from None
    return url.rstrip("/")


def caller() -> dict[str, str]:
    """Return the headers that name the caller: the API key in HOOKWIRE_TOKEN, and the user, for the audit trail.

    The key is not an option, because other users can see the options of a process.
    """
    token = os.environ.get("HOOKWIRE_TOKEN", "").strip()
    if not token.isascii() or not token.isprintable():
        raise CommandFailed("HOOKWIRE_TOKEN is not an API key; set it to one that `hookwire keys create` printed", 2)
    return {**({"Authorization": f"Bearer {token}"} if token else {}), **_actor()}


def _actor() -> dict[str, str]:
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = ""
    return {"Hookwire-Actor": name} if name.isascii() and name.isprintable() and name else {}


async def post(
    url: str, content: bytes, headers: Mapping[str, str], *, params: dict[str, str] | None = None,
    deadline_seconds: float, client: HubSession | None = None,
) -> tuple[Any, Mapping[str, str]]:  # fmt: skip
    """POST once; return the JSON and the headers of a 2xx answer. Raise ``CommandFailed`` for any other result."""
    if client is not None:
        return await _ask(client, "POST", url, content, headers, params, deadline_seconds)
    async with connected() as own:
        return await _ask(own, "POST", url, content, headers, params, deadline_seconds)


def connected() -> HubSession:
    """Return a session for many requests to the hub: connections are kept, and each request has its own deadline."""
    return HubSession()


async def get(url: str, *, params: dict[str, str] | None = None, deadline_seconds: float = _GET_SECONDS) -> Any:
    """GET once; return the JSON of a 2xx answer. Raise ``CommandFailed`` for any other result."""
    async with connected() as client:
        made, _ = await _ask(client, "GET", url, None, {}, params, deadline_seconds)
    return made


async def get_all(url: str, params: Mapping[str, str] | None = None, most: int | None = None) -> list[Any]:
    """GET a list page by page; return its items, at most ``most``. Raise ``CommandFailed`` as :func:`get` does.

    A page has fewer items than its limit if the key may not see all. So only the first limit is as small as ``most``.
    """
    found: list[Any] = []
    asked = {"limit": str(min(most or _PAGE, _PAGE)), **(params or {})}
    async with connected() as client:
        while True:
            page, _ = await _ask(client, "GET", url, None, {}, asked, _GET_SECONDS)
            found += page["items"]
            if page["next_cursor"] is None or (most is not None and len(found) >= most):
                return found[:most]
            asked |= {"cursor": page["next_cursor"], "limit": str(_PAGE)}


async def ask(
    client: HubSession, method: str, url: str, content: bytes | None = None, *, none_for: int | None = None,
    deadline_seconds: float = 60.0,
) -> Any:  # fmt: skip
    """Send one request with a JSON body; return the JSON of a 2xx answer, None for an empty one or for the named
    status.
    """
    answer = await answer_of(client, method, url, content, AS_JSON if content is not None else {}, deadline_seconds)
    if answer.status_code == none_for or (answer.is_success and not answer.content):
        return None
    return success_of(answer)


async def _ask(
    client: HubSession, method: str, url: str, content: bytes | None, headers: Mapping[str, str],
    params: dict[str, str] | None, deadline_seconds: float,
) -> tuple[Any, Mapping[str, str]]:  # fmt: skip
    answer = await answer_of(client, method, url, content, headers, deadline_seconds, params)
    return success_of(answer), answer.headers


def success_of(answer: HubAnswer) -> Any:
    """Return the JSON of a 2xx answer. Raise ``CommandFailed`` for any other."""
    made = _json(answer)
    if not answer.is_success or made is None:
        raise refusal_of(answer)
    return made


async def answer_of(
    client: HubSession, method: str, url: str, content: bytes | None, headers: Mapping[str, str],
    deadline_seconds: float, params: dict[str, str] | None = None,
) -> HubAnswer:  # fmt: skip
    """Send one request and return any answer. Raise ``CommandFailed`` without one."""
    headers = {**caller(), **headers}
    try:
        return await client.request(method, url, content, headers, deadline_seconds, params)
    except DeadlineExceeded:
        raise CommandFailed(
            f"no answer within {deadline_seconds:g} s; the hub may or may not have done it", 1
        ) from None
    except HubUnreachable as error:
        is_plain = "WRONG_VERSION_NUMBER" in str(error)
        cure = "That address speaks no TLS: begin it with http://" if is_plain else _CURE
        raise CommandFailed(f"cannot reach the hub at {_origin(url)}: {error}. {cure}", 3) from None
    except OutboundError as error:
        raise CommandFailed(f"the connection broke before the answer ({error}); the hub may have done it", 1) from None
    except ValueError as error:
        raise CommandFailed(f"{shown(url)}: {error}", 2) from None


def refusal_of(answer: HubAnswer) -> CommandFailed:
    """Return the command's failure for an answer that is no success."""
    problem = _json(answer)
    code = 3 if answer.status_code in _UNREACHABLE_STATUSES else 2 if answer.is_client_error else 1
    if isinstance(problem, dict) and "title" in problem:
        title, detail = problem["title"], problem.get("detail", "")
        # Without a detail there is no such address; a detail names what is missing.
        words = detail if detail and answer.status_code == _NOT_FOUND else f"{title}: {detail}"
        text = f"{words} (see {problem.get('type', '')})"
        if answer.status_code == _UNAUTHORIZED:
            cause = "is not a key of this hub" if answer.had_key else "is not set; set it to an API key"
            text += f". HOOKWIRE_TOKEN {cause}"
    else:
        address = shown(answer.url)
        text = f"{address} answered {answer.status_code}, but not as a hub does; check --url and HOOKWIRE_URL"
    return CommandFailed(text, code)


def _origin(url: str) -> str:
    """Return the scheme, host and port of an address."""
    return "/".join(shown(url).split("/")[:3])


def _json(answer: HubAnswer) -> Any:
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError):
        return None
