"""A hub whose routes are being imported: what is answered at once, what waits, and who may see what afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.web import application
from tests.app.conftest import RunHub, RunningHub, running_hub
from tests.app.web.test_authentication import authorized, bearer

__all__ = ["running_hub"]

BOUND_SECONDS = 60.0


@asynccontextmanager
async def loading(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch, name: str = "build_routes", **settings: Any
) -> AsyncIterator[tuple[RunningHub, threading.Event]]:
    """Yield a hub whose routes are built when the event is set."""
    built, real = threading.Event(), getattr(application, name)

    def held(*arguments: object) -> object:
        assert built.wait(BOUND_SECONDS)
        return real(*arguments)

    monkeypatch.setattr(application, name, held)
    async with running_hub(is_loaded=False, **settings) as hub:
        try:
            yield hub, built
        finally:
            built.set()


async def test_a_hub_takes_events_before_it_is_ready(running_hub: RunHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """GW-13, FT-17: a balancer sends a request elsewhere that would have to wait here."""
    async with loading(running_hub, monkeypatch) as (hub, built):
        alive, early, stored = [
            await hub.client.get("/healthz"), await hub.client.get("/readyz"), await hub.publish("a"),
        ]  # fmt: skip
        assert (alive.status_code, early.status_code, early.json()["status"], stored.status_code) == (
            200, 503, "starting", 202,
        )  # fmt: skip
        assert (alive.content[-2:], early.content[-2:]) == (b"}\n", b"}\n")
        built.set()
        await hub.until("/readyz", lambda answer: answer["status"] == "ok")


async def test_with_keys_publishing_is_judged_at_once_and_the_rest_by_its_route(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SE-04: which key a request needs is known when its route is there, so it waits before it is judged."""
    async with loading(running_hub, monkeypatch, access="keys") as (hub, built):
        reader, publisher, subscriber = [await bearer(hub, scope) for scope in ("read", "publish", "subscribe")]
        without = await hub.publish("a")
        stored = await hub.client.post("/topics/a/events", content=b"1", headers=authorized(publisher))
        requests = [
            ("GET", "/topics", {}), ("GET", "/topics", authorized(reader)), ("GET", "/topics", authorized(publisher)),
            ("GET", "/subscriptions", authorized(subscriber)), ("HEAD", "/topics", authorized(reader)),
            ("OPTIONS", "/topics", {}),
        ]  # fmt: skip
        asked = [asyncio.create_task(hub.client.request(*one, headers=headers)) for *one, headers in requests]
        assert (await hub.client.get("/healthz")).status_code == 200
        assert [task.done() for task in asked] == [False] * len(asked)
        built.set()
        statuses = [(await task).status_code for task in asked]
        later = (await hub.client.options("/topics")).status_code
    assert (without.status_code, stored.status_code, statuses) == (401, 202, [401, 200, 403, 200, 200, later])


async def test_the_port_for_metrics_is_not_ready_while_the_api_is_not(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """GW-13: Kubernetes asks this port."""
    listen = f"127.0.0.1:{free_port}"
    async with (
        loading(running_hub, monkeypatch, metrics_listen=listen) as (hub, built),
        httpx.AsyncClient(base_url=f"http://{listen}", trust_env=False, timeout=BOUND_SECONDS) as probes,
    ):
        metrics = await probes.get("/metrics")  # served as soon as the routes of this port are there
        early = await probes.get("/readyz")
        assert (early.status_code, early.json()["status"]) == (503, "starting")
        assert "hookwire_calls_without_effect" in metrics.text
        built.set()
        await hub.until("/readyz", lambda answer: answer["status"] == "ok")
        assert (await probes.get("/readyz")).status_code == 200


async def test_a_hub_that_is_stopped_while_it_loads_ends(running_hub: RunHub, monkeypatch: pytest.MonkeyPatch) -> None:
    built = threading.Event()
    monkeypatch.setattr(application, "build_routes", lambda *_: built.wait(BOUND_SECONDS))
    async with asyncio.timeout(BOUND_SECONDS / 2), running_hub(is_loaded=False) as hub:
        assert (await hub.publish("a")).status_code == 202
    assert not built.is_set()
    built.set()
