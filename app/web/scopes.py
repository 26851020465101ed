"""Scopes: what each route needs of an API key. Default deny: a route that no rule knows needs ``admin``, or ``read``.

::

    publish    events, to topics of the key           payloads   with read: contents are shown
    subscribe  subscriptions, pull                     operate    retry, give up, skip, purge, replay, pause, cancel
    enqueue    messages, tasks, jobs                   work       receive, claim, settle
    call       services                                admin      everything

``tests/app/web/test_scopes.py`` holds the whole table, route by route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.web.rabbithub_path import PREFIX as RABBITHUB
from app.web.rabbithub_path import parts_of
from hub.keys import Grant
from hub.keys import Scope as KeyScope

__all__ = ["Need", "need_of"]

_READS: Final = ("GET", "HEAD")
_OPERATED: Final = frozenset({"deliveries", "holds", "dead-letters", "replays"})
_WORKED: Final = frozenset({"receive", "accept", "reject", "extend"})


@dataclass(frozen=True, slots=True)
class Need:
    """One of ``scopes``, and where it says so also ``payloads``; for this topic or this queue, if there is one."""

    scopes: Sequence[KeyScope]
    payloads: bool = False
    topic: str | None = None
    queue: str | None = None

    def missing(self, grant: Grant) -> Sequence[KeyScope]:
        """The scopes of which the key lacks every one; () when it has enough."""
        if not grant.has(*self.scopes):
            return self.scopes
        return ("payloads",) if self.payloads and not grant.has("payloads") else ()


def need_of(method: str, path: str) -> Need:  # noqa: PLR0911 - a table, rule by rule
    """What a request needs, as far as its path tells."""
    reads = method in _READS
    room, *rest = path.strip("/").split("/")
    if path.startswith(RABBITHUB):
        return _rabbithub(method, path)
    if room == "topics" and rest:
        return _topics(rest, reads=reads)
    if room == "queues":
        return _queues(method, rest)
    if path == "/hub/content":
        return Need(("publish",))
    if room in ("subscriptions", "filters") or path == "/hub":
        return Need(("subscribe", "read") if reads else ("subscribe",))
    if room == "jobs":
        return _jobs(rest, method)
    if room == "tasks":
        return Need(("read",) if reads else ("admin",) if method == "PUT" else ("operate",))
    return Need(("read",) if reads else ("operate",) if room in _OPERATED else ("admin",))


def _topics(rest: Sequence[str], *, reads: bool) -> Need:
    topic, verb = rest[0], "/".join(rest[1:])
    if verb == "events":
        return Need(("publish",), topic=topic)
    return Need(("read",) if reads else ("admin",), payloads=reads and not verb, topic=topic)


def _jobs(rest: Sequence[str], method: str) -> Need:
    if method in _READS:
        return Need(("read",))
    if rest and rest[0] in ("kinds", "periodic"):
        return Need(("operate",) if method == "POST" else ("admin",))
    if not rest:
        return Need(("enqueue",))
    return Need(("operate",) if rest[-1] in ("cancel", "retry") else ("work",))


def _queues(method: str, rest: Sequence[str]) -> Need:
    queue, verb = (rest[0] or None if rest else None), rest[1] if len(rest) > 1 else ""
    if method in _READS:
        return Need(("read",), queue=queue)
    if method == "POST" and verb == "messages":
        return Need(("enqueue",), queue=queue)
    if (method == "POST" and (verb in _WORKED or queue is None)) or (
        verb == "consumers" or (method == "DELETE" and queue is not None and queue.startswith("tmp."))
    ):
        return Need(("work",), queue=queue)
    return Need(("operate",) if method == "POST" else ("admin",), queue=queue)


def _rabbithub(method: str, path: str) -> Need:
    what = parts_of(path)[1]
    if method == "POST" and what == "endpoint":
        return Need(("publish",))
    if method == "POST" and what == "subscribe":
        return Need(("subscribe",))
    return Need(("read",) if method in _READS else ("admin",))
