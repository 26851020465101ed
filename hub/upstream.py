"""Upstreams: this hub as a subscriber of other hubs (W3C WebSub 4.1, 5, 7).

    wanted --discover, POST the form--> requested --the hub's GET, its challenge echoed--> active --4/5 of the lease--.
       ^                                    | hub.mode=denied                                ^                        |
       '--- a day later --- denied <--------'                                                '--- discover, ask again '

A delivery of the other hub is published here as an event of the foreign topic, and answered when it is committed. Our
callback cannot be guessed and identifies the topic; ``Link`` is not used.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import urlencode, urljoin

import structlog

from db.errors import DatabaseError
from db.pool import Row
from db.secret_box import SecretBoxError
from egress.client import Outbound, Request, Response
from egress.failure import OutboundError
from egress.url import UrlRefused, parse_target
from hub.acceptance import Hub, Named
from hub.content import distribute
from hub.feeds.discovery import DISCOVERY_LIMITS, Discovered, discover
from hub.form import FormRefused
from hub.topic_url import foreign_name, matching_text
from runtime.wake import Wake
from webhooks.signature import SignatureRefused, verify_hub_signature

__all__ = ["Upstreams", "confirm", "end", "receive", "want"]

_log = structlog.get_logger(__name__)
_REDIRECTS_MAX = 5
_COMMIT_SECONDS = 10.0
_PATIENCE_SECONDS = 300.0
_PAUSES_SECONDS = (5.0, 60.0, 600.0, 3600.0, 21_600.0)
_QUIET_PAUSE_SECONDS = 60.0
_QUIET_HINT = "nothing came for longer than usual: look at the publisher, or give hub_url and topic_url by hand"
_FORM = (("content-type", "application/x-www-form-urlencoded"),)


class _NotSubscribed(Exception):
    """The request led to no subscription; the text says why."""


async def want(hub: Hub, url: str, hub_url: str | None = None, topic_url: str | None = None) -> None:
    """Ask the topic's hub for a subscription; raise ``db.errors.DatabaseError``.

    ``hub_url`` and ``topic_url`` replace what the topic advertises.
    """
    name = foreign_name(url)
    sealed = hub.secret_box.seal(secrets.token_urlsafe(32).encode(), _context(hub.tenant, name))
    async with hub.database.transaction() as session:
        await session.execute("foreign.ensure", hub.tenant, name, url)
        await session.execute(
            "upstream.want", hub.tenant, name, url, secrets.token_urlsafe(24), sealed.key_id, sealed.ciphertext,
            hub_url, topic_url,
        )  # fmt: skip


async def end(hub: Hub, url: str) -> bool:
    """Answer deliveries with 410 from now on, which ends it at the other hub.

    Return False if none exists.
    """
    return await hub.database.fetchval("upstream.end", hub.tenant, foreign_name(url)) is not None


async def confirm(hub: Hub, token: str, query: Mapping[str, str]) -> str:
    """Handle another hub's GET: return the challenge to echo, or '' for a denial; raise ``FormRefused`` 404."""
    row = await hub.database.fetchrow("upstream.by_token", token)
    topic, mode = query.get("hub.topic", ""), query.get("hub.mode")
    if row is None or matching_text(topic) not in {matching_text(url) for url in (row["self_url"], row["url"]) if url}:
        raise FormRefused(404, "hub.topic", "was not requested by this hub")
    if mode == "denied" and await hub.database.fetchval("upstream.denied", token, query.get("hub.reason", "")[:200]):
        _log.warning("upstream_denied", topic=row["topic"])
        return ""
    challenge, lease = query.get("hub.challenge", ""), query.get("hub.lease_seconds", "")
    lease_seconds = int(lease) if lease.isascii() and lease.isdigit() and 0 < len(lease) <= 9 else 864_000
    is_ours = mode == "subscribe" and challenge
    if not is_ours or not await hub.database.fetchval("upstream.confirm", token, max(lease_seconds, 1)):
        raise FormRefused(404, "hub.mode", "was not requested by this hub")
    return challenge


async def receive(
    hub: Hub,
    token: str,
    read: Callable[[], Awaitable[bytes]],
    content_type: str | None,
    signatures: Sequence[str],
    hops: int = 0,
) -> None:
    """Publish a delivery that has passed ``hops`` hubs; it is committed when this returns.

    ``read`` gives its body; it is called when the token and the signature's method are known. A wrong signature is
    ignored silently. Raises ``FormRefused``: 404, 410 ended, 403 not signed, 503 if the subscription's secret
    cannot be read, so that the other hub delivers again.
    """
    row = await hub.database.fetchrow("upstream.by_token", token)
    if row is None:
        raise FormRefused(404, "", "there is no such callback")
    if row["state"] == "ended":
        raise FormRefused(410, "", "this subscription has ended")
    if len(signatures) != 1 or signatures[0].partition("=")[0].lower() not in ("sha1", "sha256", "sha384", "sha512"):
        raise FormRefused(403, "X-Hub-Signature", "is missing, or made by an unknown method")
    try:
        secret = hub.secret_box.open(row["key_id"], row["sealed"], _context(row["tenant"], row["topic"]))
    except SecretBoxError as error:
        _log.warning("upstream_delivery_not_checked", topic=row["topic"], error=str(error))
        raise FormRefused(503, "", "the secret of this subscription cannot be read") from None
    body = await read()
    try:
        verify_hub_signature(secret, signatures[0], body)
    except SignatureRefused as error:
        _log.warning("upstream_delivery_ignored", topic=row["topic"], error=str(error))
        return
    # This hub asked for it, so the setting for subscribers' foreign topics does not matter here.
    await distribute(hub, row["url"], body, content_type, hops, Named(row["topic"], is_foreign=True))
    try:
        await hub.database.execute("upstream.received", token)
    except DatabaseError as error:  # the event is stored in any case
        _log.warning("upstream_not_recorded", topic=row["topic"], error=str(error))


class Upstreams:
    """The service: discovers, subscribes, renews. ``wake`` is notified when one is due."""

    name = "upstreams"

    def __init__(self, hub: Hub, outbound: Outbound, wake: Wake) -> None:
        self._hub = hub
        self._outbound = outbound
        self._wake = wake
        self._quiet_at = 0.0
        self._stopping = False
        self._in_flight = 0

    def stop(self) -> None:
        """Soft stop: finish the requests in progress."""
        self._stopping = True
        self._wake.notify()

    async def run(self) -> None:
        """Ask until stopped, side by side, because a hub that does not answer takes a minute. Cancelling is safe: an
        open claim comes due again by itself.
        """
        async with asyncio.TaskGroup() as tasks:
            while not self._stopping:
                for row in await self._claim():
                    self._wake.busy()
                    self._in_flight += 1
                    task = tasks.create_task(self._subscribe(row), name=f"upstream {row['topic']}")
                    task.add_done_callback(self._done)
                await self._tell_quiet()
                await self._wake.wait()

    def _done(self, _task: asyncio.Task[None]) -> None:
        self._in_flight -= 1
        self._wake.notify()

    async def _tell_quiet(self) -> None:
        """Warn of active upstreams from which nothing came for longer than usual."""
        if time.monotonic() < self._quiet_at:
            return
        self._quiet_at = time.monotonic() + _QUIET_PAUSE_SECONDS
        try:
            rows = await self._hub.database.fetch("upstream.quiet")
        except DatabaseError as error:
            _log.warning("upstream_not_recorded", error=str(error))
            return
        for row in rows:
            last = "never" if row["received_at"] is None else row["received_at"].isoformat(timespec="seconds")
            _log.warning("upstream_quiet", topic=row["topic"], url=row["url"], last_delivery=last, hint=_QUIET_HINT)

    async def _claim(self) -> Sequence[Row]:
        free = self._hub.options.fetch_slots - self._in_flight
        if free <= 0:
            return ()
        seconds = 2 * self._hub.options.fetch_deadline_seconds + _COMMIT_SECONDS
        try:
            return await self._hub.database.fetch("upstream.claim", free, seconds)
        except DatabaseError as error:
            _log.warning("upstream_claim_failed", error=str(error))
            return ()

    async def _subscribe(self, row: Row) -> None:
        mine = (row["tenant"], row["topic"], row["claims"])
        pause = _PAUSES_SECONDS[min(row["failures"], len(_PAUSES_SECONDS) - 1)]
        try:
            hub_url, self_url = await self._place(row)
            if await self._hub.database.fetchval("upstream.ask", *mine, hub_url, self_url) is None:
                return
            await self._ask(hub_url, self._form(row, self_url))
            await self._hub.database.execute("upstream.asked", *mine, max(pause, _PATIENCE_SECONDS))
            _log.info("upstream_asked", topic=row["topic"])
        except _NotSubscribed as error:
            _log.warning("upstream_not_asked", topic=row["topic"], error=str(error), again_in_seconds=pause)
            await self._note_failure(mine, pause, str(error))
        except DatabaseError as error:
            _log.warning("upstream_not_recorded", topic=row["topic"], error=str(error))

    async def _place(self, row: Row) -> tuple[str, str]:
        """Return the URLs of the hub and of the topic there: those given by hand, else the discovered ones."""
        hub_url, topic_url = row["given_hub_url"], row["given_topic_url"]
        if hub_url is None:
            found = await self._discover(row["url"])
            hub_url, topic_url = found.hubs[0], topic_url or found.self_url
        return hub_url, topic_url or row["url"]

    async def _note_failure(self, mine: tuple[str, str, int], pause: float, why: str) -> None:
        try:
            await self._hub.database.execute("upstream.failed", *mine, pause, why)
        except DatabaseError as error:
            _log.warning("upstream_not_recorded", topic=mine[1], error=str(error))

    async def _discover(self, url: str) -> Discovered:
        """Discover the hub anew each time, to follow a topic that has moved."""
        final_url, response = await self._send("GET", url, b"", (301, 302, 303, 307, 308))
        if response.status != 200:
            raise _NotSubscribed(f"the topic answered {response.status}")
        content_type = next(iter(response.values("content-type")), None)
        # An untrusted page is parsed beside the event loop.
        found = await asyncio.to_thread(discover, response.values("link"), content_type, response.body, final_url)
        others = tuple(url for url in found.hubs if matching_text(url) != matching_text(f"{self._public_url}/hub"))
        if not others:
            but_this = " but this one" if found.hubs else ""
            raise _NotSubscribed(f"the topic advertises no hub{but_this}{found.searched and ': '}{found.searched}")
        return Discovered(others, found.self_url or final_url)

    async def _ask(self, hub_url: str, form: bytes) -> None:
        _, response = await self._send("POST", hub_url, form, (307, 308))
        if not 200 <= response.status <= 299:
            raise _NotSubscribed(f"the hub answered {response.status}")

    def _form(self, row: Row, topic_url: str) -> bytes:
        try:
            secret = self._hub.secret_box.open(row["key_id"], row["sealed"], _context(row["tenant"], row["topic"]))
        except SecretBoxError as error:
            raise _NotSubscribed(f"the secret cannot be read any more: {error}") from None
        return urlencode(
            {
                "hub.mode": "subscribe",
                "hub.topic": topic_url,
                "hub.callback": f"{self._public_url}/hub/callback/{row['token']}",
                "hub.secret": secret.decode(),
            }
        ).encode()

    async def _send(self, method: str, url: str, body: bytes, redirects: Sequence[int]) -> tuple[str, Response]:
        """Send the request and follow redirects with the same body; the guard judges each hop."""
        deadline_seconds = self._hub.options.fetch_deadline_seconds
        headers = _FORM if body else ()
        try:
            async with asyncio.timeout(deadline_seconds):
                for _ in range(_REDIRECTS_MAX + 1):
                    target = parse_target(url, self._hub.options.url_policy)
                    request = Request(
                        method, target, headers, body, deadline_seconds, reuse=False, limits=DISCOVERY_LIMITS
                    )
                    response = await self._outbound.send(request)
                    if response.status not in redirects:
                        return url, response
                    url = urljoin(url, next(iter(response.values("location")), "")).partition("#")[0]
        except (UrlRefused, OutboundError, ValueError) as error:
            raise _NotSubscribed(str(error)) from None
        except TimeoutError:
            raise _NotSubscribed("no answer within the time allowed") from None
        raise _NotSubscribed(f"more than {_REDIRECTS_MAX} redirects")

    @property
    def _public_url(self) -> str:
        return self._hub.options.public_url


def _context(tenant: str, topic: str) -> bytes:
    return f"upstream:{tenant}:{topic}".encode()
