"""The restart variants of the WebSub requirements (marked so in section 1): SIGKILL in the middle, and on again."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from app.chaos.child import Child
from tests.hub.callback import Callbacks, answers, hang, serve_callbacks
from tests.waiting import until


@dataclass
class Service:
    """One process of ours that is killed and started again, its database, and the callbacks it knows."""

    child: Child
    callbacks: Callbacks
    sql: asyncpg.Connection
    client: httpx.AsyncClient

    async def ask(self, path: str, mode: str = "subscribe", **more: str) -> None:
        """Each path is on an address of its own, so that none waits for another."""
        callback = self.callbacks.url(path, host=f"127.0.0.{10 + len(path)}")
        form = {"mode": mode, "topic": f"http://127.0.0.1:{self.child.port}/topics/t", "callback": callback, **more}
        answer = await self.client.post("/hub", data={f"hub.{name}": value for name, value in form.items()})
        assert answer.status_code == 202, answer.text

    async def publish(self, body: bytes) -> None:
        assert (await self.client.post("/topics/t/events", content=body)).status_code == 202

    async def decided(self) -> None:
        """No request is open."""
        await until(
            lambda: self.sql.fetchval("SELECT NOT EXISTS (SELECT FROM hookwire.intents WHERE decided_at IS NULL)")
        )

    async def states(self) -> dict[str, str]:
        """By the path of the callback."""
        rows = await self.sql.fetch("SELECT callback, state FROM hookwire.subscriptions ORDER BY id")
        return {f"/{row['callback'].rpartition('/')[2]}": row["state"] for row in rows}

    async def posts(self, *bodies: bytes, sentinel: str = "/sentinel") -> dict[str, list[bytes]]:
        """What came at each path, once the sentinel has all of these."""

        async def there() -> bool:
            return [body for path, _, body in self.callbacks.posted if path == sentinel] == list(bodies)

        await until(there)
        found: dict[str, list[bytes]] = {}
        for path, _, body in self.callbacks.posted:
            found.setdefault(path, []).append(body)
        return found

    async def again(self) -> None:
        """SIGKILL, and a new start; what the dead process had claimed comes due at once."""
        await self.child.kill()
        await self.sql.execute("UPDATE hookwire.intents SET due_at = now() WHERE decided_at IS NULL")
        await self.sql.execute("UPDATE hookwire.deliveries SET due_at = now()")
        await self.child.start()


@asynccontextmanager
async def service(
    database_url: str, folder: Path, failpoints: str = "", *, direct: bool = True
) -> AsyncIterator[Service]:
    settings = {
        "DATABASE_URL": database_url, "DATA_DIR": str(folder), "PROFILE": "development", "LOG_LEVEL": "warning",
        "EGRESS_ALLOW_CIDRS": "127.0.0.0/8", "DELIVERY_TIMEOUT_SECONDS": "30", "RETRY_SCHEDULE_SECONDS": "1,1,1",
        "DIRECT_DELIVERIES": str(direct),
    }  # fmt: skip
    child = Child("hub", folder, settings)
    sql = await asyncpg.connect(database_url)
    base_url = f"http://127.0.0.1:{child.port}"
    try:
        talking = httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=60)
        async with serve_callbacks() as callbacks, talking as client:
            await child.start(failpoints)
            yield Service(child, callbacks, sql, client)
    finally:
        await child.kill()
        await sql.close()


SIGNED = {"/renew": "B", "/refuses": "A", "/sentinel": "A", "/new": "N"}
"""With whose secret each is signed at the end."""


def is_signed(post: tuple[str, dict[str, str], bytes], secret: str) -> bool:
    _, about, body = post
    return about["x-hub-signature"] == f"sha256={hmac.digest(secret.encode(), body, 'sha256').hex()}"


@pytest.mark.parametrize("point", ["accepted", "asked", "verify.before_close", "verify.after_close"])
async def test_requests_are_decided_as_asked_although_the_service_dies(
    point: str, database_url: str, tmp_path: Path
) -> None:
    """WS-04, WS-05, WS-18, WS-19, WS-84, F38, GU-20: a subscription, a renewal, one that is refused, an unsubscription.

    Killed when they are accepted; while their callbacks are asked; when one has answered; before that is committed.
    """
    failpoints = f"{point}:kill@5" if "." in point else ""
    async with service(database_url, tmp_path, failpoints) as hub:
        for path in ("/renew", "/refuses", "/end", "/sentinel"):
            await hub.ask(path, secret="A")
        await hub.decided()
        hub.callbacks.script["/refuses"] = answers(404)
        if point == "asked":
            hub.callbacks.script |= dict.fromkeys(("/renew", "/new", "/end"), hang)
        asked_before = len(hub.callbacks.targets)
        try:
            await hub.ask("/new", secret="N")
            await hub.ask("/renew", secret="B")
            await hub.ask("/refuses", secret="B")
            await hub.ask("/end", mode="unsubscribe")
        except httpx.TransportError:  # it died as it was to
            assert failpoints
        if point == "asked":
            await hub.callbacks.wait_for(asked_before + 3)
        if failpoints:
            assert await hub.child.ended(60) == -9
        for path in ("/renew", "/new", "/end"):
            hub.callbacks.script.pop(path, None)
        await hub.again()
        if failpoints:  # those that had no answer are made again, as their senders do
            await hub.ask("/new", secret="N")
            await hub.ask("/renew", secret="B")
            await hub.ask("/end", mode="unsubscribe")
        await hub.decided()
        hub.callbacks.script.clear()
        await hub.publish(b"1")
        posts = await hub.posts(b"1")
        await until(lambda: _quiet(hub))

        assert await hub.states() == {
            "/renew": "active", "/refuses": "active", "/end": "deleted", "/sentinel": "active", "/new": "active",
        }  # fmt: skip
        assert "/end" not in posts
        signed = {path: secret for path, secret in SIGNED.items() if is_signed(posts_of(hub, path)[0], secret)}
        assert (signed, len(hub.callbacks.posted)) == (SIGNED, 4)


def posts_of(hub: Service, path: str) -> list[tuple[str, dict[str, str], bytes]]:
    return [post for post in hub.callbacks.posted if post[0] == path]


async def _quiet(hub: Service) -> Any:
    return await hub.sql.fetchval("SELECT NOT EXISTS (SELECT FROM hookwire.deliveries)")


@pytest.mark.parametrize("point", ["deliver.after_claim", "deliver.after_response"])
async def test_a_delivery_goes_on_where_it_was_when_the_service_dies(
    point: str, database_url: str, tmp_path: Path
) -> None:
    """WS-59, WS-60: the same body and id after the restart, and the subscription as it was."""
    failpoints = f"{point}:kill@1"
    async with service(database_url, tmp_path, failpoints, direct=point == "deliver.after_response") as hub:
        await hub.ask("/sentinel", secret="A")
        await hub.decided()
        lease = await hub.sql.fetchval("SELECT lease_until FROM hookwire.subscriptions")
        with suppress(httpx.TransportError):
            await hub.publish(b"1")
        assert await hub.child.ended(60) == -9
        await hub.again()
        if not await hub.sql.fetchval("SELECT EXISTS (SELECT FROM hookwire.events)"):
            await hub.publish(b"1")
        await until(lambda: _quiet(hub))

        posts = hub.callbacks.posted
        assert {
            (path, body, about["webhook-id"], is_signed((path, about, body), "A")) for path, about, body in posts
        } == {("/sentinel", b"1", posts[0][1]["webhook-id"], True)}
        assert len(posts) == (2 if point == "deliver.after_response" else 1)
        assert await hub.sql.fetchval("SELECT lease_until FROM hookwire.subscriptions WHERE state = 'active'") == lease


async def test_what_ended_stays_ended_when_the_service_dies(database_url: str, tmp_path: Path) -> None:
    """WS-38, WS-48: a denial is told after the restart, a lease that ended meanwhile counts, nothing is delivered."""
    async with service(database_url, tmp_path) as hub:
        for path in ("/denied", "/over", "/sentinel"):
            await hub.ask(path)
        await hub.decided()
        items = (await hub.client.get("/subscriptions")).json()["items"]
        (denied,) = [one["id"] for one in items if one["callback"].endswith("/denied")]
        hub.callbacks.script["/denied"] = hang
        answer = await hub.client.post(f"/subscriptions/{denied}/denial", json={"reason": "enough"})
        await hub.child.kill()
        await hub.sql.execute("UPDATE hookwire.subscriptions SET lease_until = now() WHERE callback LIKE '%/over'")
        hub.callbacks.script.pop("/denied")
        told_before = _told(hub.callbacks)
        await hub.again()
        await hub.decided()
        await hub.publish(b"1")
        posts = await hub.posts(b"1")

        assert (answer.status_code, _told(hub.callbacks) > told_before) == (204, True)
        assert posts == {"/sentinel": [b"1"]}
        await until(lambda: _is_over(hub))


def _told(callbacks: Callbacks) -> int:
    return sum(query["hub.mode"] == ["denied"] for query in callbacks.queries("/denied"))


async def _is_over(hub: Service) -> bool:
    return await hub.states() == {"/denied": "denied", "/over": "expired", "/sentinel": "active"}
