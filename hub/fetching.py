"""Fetching: get the content of foreign topics after a ping, and publish it here.

    claim (due topics, for a limited time) --> GET, conditional, redirects followed, each hop guarded
        --> 304, the same content, or a feed without new entries: nothing to distribute
        --> new content: one transaction publishes it as an event and stores its digest
        --> anything else: again after a growing pause; an error page is never distributed

The event's key is the same for all contents of a topic, so that subscribers get them in order. A ping during a fetch
causes one more fetch, which starts later. Pings are merged, never dropped.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urljoin

import structlog

from db.errors import DatabaseError
from db.pool import Database, Row
from egress.client import Outbound, ReadLimits, Request, Response
from egress.failure import OutboundError
from egress.url import UrlRefused, parse_target
from event.event import Draft
from hub.feeds.discovery import discover
from hub.feeds.feed import FeedRefused, read_feed, without
from hub.feeds.known import Known
from hub.options import HubOptions
from hub.publish import store_event
from hub.topic_url import hub_url
from runtime.wake import Wake
from webhooks.message import LINK_HEADER, link_header

__all__ = ["Fetching"]

_log = structlog.get_logger(__name__)

_KEY = "content"
_REDIRECTS_MAX = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_COMMIT_SECONDS = 10.0
_HEAD_BYTES_MAX = 32 * 1024
_PAUSES_SECONDS = (5, 60, 300, 1800, 3600, 7200)
_HEADER_CHARACTERS_MAX = 1024
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_MEMBERS_MAX = 16


class _FetchFailed(Exception):
    """No content came. ``status`` is that of the last answer, if there was one."""

    def __init__(self, text: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class _Content:
    """The answer of a topic; ``body`` None when it has not changed."""

    url: str
    status: int
    body: bytes | None
    content_type: str | None
    etag: str | None
    last_modified: str | None
    links: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """The state to store, and the content to distribute; ``payload`` None when a feed has nothing new."""

    digest: bytes
    payload: bytes | None
    entries: str | None
    content_type: str | None
    self_url: str | None
    hub_url: str | None


class Fetching:
    """The service; ``wake`` is notified by pings, ``on_commit`` is called when an event was published."""

    name = "topic fetching"

    def __init__(
        self, database: Database, outbound: Outbound, options: HubOptions, wake: Wake, on_commit: Callable[[], None]
    ) -> None:
        self._database = database
        self._outbound = outbound
        self._options = options
        self._wake = wake
        self._on_commit = on_commit
        self._stopping = False
        self._in_flight = 0
        self._doubtful = 0
        size = options.fetch_bytes_max
        self._limits = ReadLimits(_HEAD_BYTES_MAX, read_bytes_max=size + 2 * _HEAD_BYTES_MAX, keep_bytes_max=size + 1)

    def stop(self) -> None:
        """Soft stop: claim no more, finish the fetches that are under way (one deadline at most)."""
        self._stopping = True
        self._wake.notify()

    async def run(self) -> None:
        """Fetch until stopped. Cancelling is safe: open claims come due again by themselves."""
        async with asyncio.TaskGroup() as tasks:
            while not self._stopping:
                for row in await self._claim():
                    self._wake.busy()
                    self._in_flight += 1
                    self._doubtful += row["is_doubtful"]
                    task = tasks.create_task(self._fetch(row), name=f"fetch {row['topic']}")
                    task.add_done_callback(partial(self._done, is_doubtful=row["is_doubtful"]))
                await self._wake.wait()

    def _done(self, _task: asyncio.Task[None], *, is_doubtful: bool) -> None:
        self._in_flight -= 1
        self._doubtful -= is_doubtful
        self._wake.notify()

    async def _claim(self) -> Sequence[Row]:
        """Claim topics. New ones, and those whose last fetch failed, get half of the slots together."""
        free, half = self._options.fetch_slots - self._in_flight, max(1, self._options.fetch_slots // 2)
        if free <= 0:
            return ()
        takes_doubtful = self._doubtful < half
        most = min(free, half - self._doubtful) if takes_doubtful else free
        seconds = self._options.fetch_deadline_seconds + _COMMIT_SECONDS
        try:
            return await self._database.fetch("foreign.claim", most, seconds, takes_doubtful)
        except DatabaseError as error:
            _log.warning("topic_claim_failed", error=str(error))
            return ()

    async def _fetch(self, row: Row) -> None:
        try:
            content = await self._get(row)
            # Parsing a large feed must not block the loop.
            change = await asyncio.to_thread(self._change, row, content)
            await self._succeed(row, content, change)
        except _FetchFailed as failure:
            await self._fail(row, failure)
        except DatabaseError as error:
            _log.warning("topic_fetch_not_recorded", topic=row["topic"], error=str(error))

    async def _get(self, row: Row) -> _Content:
        url = str(row["url"])
        try:
            async with asyncio.timeout(self._options.fetch_deadline_seconds):
                for _ in range(_REDIRECTS_MAX + 1):
                    response = await self._send(url, row)
                    if response.status not in _REDIRECTS:
                        return self._content(url, response)
                    url = _location(url, response)
        except UrlRefused as error:
            raise _FetchFailed(error.reason) from None
        except OutboundError as error:
            raise _FetchFailed(error.detail) from None
        except TimeoutError:
            raise _FetchFailed("no answer within the time allowed") from None
        raise _FetchFailed(f"more than {_REDIRECTS_MAX} redirects", response.status)

    async def _send(self, url: str, row: Row) -> Response:
        """Send one request; return its answer, also a redirect. Each URL is parsed, judged and dialled anew."""
        target = parse_target(url, self._options.url_policy)
        agent = f"hookwire/0.2 (+{self._options.public_url}; {row['subscribers']} subscribers)"
        headers = [("user-agent", agent)]
        if not row["always_deliver"]:  # a 304 would have no content to distribute
            conditions = (("if-none-match", row["etag"]), ("if-modified-since", row["last_modified"]))
            headers += [(name, value) for name, value in conditions if value]
        deadline_seconds = self._options.fetch_deadline_seconds
        return await self._outbound.send(Request("GET", target, headers, b"", deadline_seconds, limits=self._limits))

    def _content(self, url: str, response: Response) -> _Content:
        status = response.status
        if status not in (200, 304):
            raise _FetchFailed(f"the topic answered {status}", status)
        body = None
        if status == 200:
            body = _decoded(response, self._options.fetch_bytes_max)
        return _Content(
            url, status, body, _first(response, "content-type"), _first(response, "etag"),
            _first(response, "last-modified"), tuple(response.values("link")),
        )  # fmt: skip

    def _change(self, row: Row, content: _Content) -> _Change | None:
        body = content.body
        if body is None:
            return None
        digest = hashlib.sha256(f"{content.content_type}\0".encode() + body).digest()
        if digest == row["digest"] and not row["always_deliver"]:
            return None
        news = _news(row, content, body) if row["feed_diff"] else (body, None, content.content_type)
        found = discover(content.links, content.content_type, body, content.url)
        return _Change(digest, *news, found.self_url, found.hubs[0] if found.hubs else None)

    async def _succeed(self, row: Row, content: _Content, change: _Change | None) -> None:
        tenant, topic = row["tenant"], row["topic"]
        async with self._database.transaction() as session:
            mine = await session.fetchrow("foreign.fetched", tenant, topic, row["claims"], row["pings"], content.status)
            if mine is None:
                _log.info("topic_fetch_late", topic=topic)
                return
            if change is not None:
                await session.execute(
                    "foreign.changed", tenant, topic, content.etag, content.last_modified, change.digest,
                    change.entries, change.self_url, change.hub_url, change.payload is not None,
                )  # fmt: skip
            if change is not None and change.payload is not None:
                headers = {LINK_HEADER: self._link(row, change)}
                await store_event(session, tenant, Draft(topic, change.payload, _KEY, change.content_type, headers))
        is_news = change is not None and change.payload is not None
        if is_news:
            self._on_commit()
        _log.info("topic_fetched", topic=topic, status=content.status, changed=is_news)

    def _link(self, row: Row, change: _Change) -> str:
        """Return the topic's own links, byte for byte; else this hub and the subscribed URL."""
        return link_header(change.hub_url or hub_url(self._options.public_url), change.self_url or row["url"])

    async def _fail(self, row: Row, failure: _FetchFailed) -> None:
        pause = _PAUSES_SECONDS[row["failures"]] if row["failures"] < len(_PAUSES_SECONDS) else None
        _log.info("topic_fetch_failed", topic=row["topic"], error=str(failure), again_in_seconds=pause)
        try:
            await self._database.execute(
                "foreign.failed", row["tenant"], row["topic"], row["claims"], row["pings"], pause, failure.status,
                str(failure),
            )  # fmt: skip
        except DatabaseError as error:
            _log.warning("topic_fetch_not_recorded", topic=row["topic"], error=str(error))


def _news(row: Row, content: _Content, body: bytes) -> tuple[bytes | None, str | None, str | None]:
    """Return the feed without its known entries, or None if nothing is new; the known entries from now on; its type.

    Content that is no feed is a failed fetch. It must neither reach subscribers nor replace the known entries.
    """
    try:
        feed = read_feed(body, content.content_type)
    except FeedRefused as error:
        text = f"the topic is registered with feed_diff, but {error}; to distribute it whole, set feed_diff to false"
        raise _FetchFailed(text, content.status) from None
    known = Known(row["entries"])
    is_news = row["always_deliver"] or not known.has_all(feed)
    return without(feed, known.has) if is_news else None, known.after(feed), feed.media_type


def _location(url: str, response: Response) -> str:
    places = response.values("location")
    if len(places) != 1:
        raise _FetchFailed(f"the topic answered {response.status} without one Location", response.status)
    try:
        return urljoin(url, places[0]).partition("#")[0]
    except ValueError:
        raise _FetchFailed("the topic redirects to no URL", response.status) from None


def _first(response: Response, name: str) -> str | None:
    value = next(iter(response.values(name)), None)
    return value if value and len(value) <= _HEADER_CHARACTERS_MAX and value.isascii() else None


def _decoded(response: Response, bytes_max: int) -> bytes:
    """Return the content without its coding. gzip, which some servers send unasked, is unpacked up to the limit
    only.
    """
    body, coding = response.body, (_first(response, "content-encoding") or "identity").lower()
    if coding in ("gzip", "x-gzip") and not response.truncated:
        body = _unpacked(body, bytes_max, response.status)
    elif coding != "identity" and not response.truncated:
        raise _FetchFailed("the content has a coding that was not asked for", response.status)
    if len(body) > bytes_max:
        raise _FetchFailed(f"the content is larger than {bytes_max} bytes", response.status)
    if response.truncated:
        raise _FetchFailed("the content broke off", response.status)
    return body


def _unpacked(packed: bytes, bytes_max: int, status: int) -> bytes:
    """Return the content of all gzip members, up to one byte over the limit; ignore other bytes behind a member."""
    body = b""
    for _ in range(_GZIP_MEMBERS_MAX):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            body += unpacker.decompress(packed, bytes_max + 1 - len(body))
        except zlib.error:
            raise _FetchFailed("the content is not the gzip it says it is", status) from None
        if not unpacker.eof and len(body) <= bytes_max:
            raise _FetchFailed("the content broke off", status)
        packed = unpacker.unused_data
        if len(body) > bytes_max or not packed.startswith(_GZIP_MAGIC):
            return body
    raise _FetchFailed(f"the content has more than {_GZIP_MEMBERS_MAX} members of gzip", status)
