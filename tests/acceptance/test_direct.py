"""The direct path from the front door: a quiet hub delivers by it, and not where it is turned off (ADR 47)."""

import asyncio
from collections.abc import Awaitable, Callable

from prometheus_client.parser import text_string_to_metric_families

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub, running_hub
from tests.hub.callback import Callbacks, serve_callbacks

__all__ = ["running_hub"]

WAIT_SECONDS_MAX = 60.0


async def direct_deliveries(hub: RunningHub) -> float:
    families = text_string_to_metric_families((await hub.client.get("/metrics")).text)
    [sample] = [s for f in families for s in f.samples if s.name == "hookwire_delivery_direct_total"]
    return sample.value


async def publish_until(
    hub: RunningHub, callbacks: Callbacks, is_enough: Callable[[int], Awaitable[bool]]
) -> tuple[int, int]:
    """Publish one event after the other, each when the one before has arrived; gives how many, and the arrivals."""
    await hub.subscribe("a", callbacks.url("/well"))
    published = 0
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not await is_enough(published):
            await hub.publish("a", b"%d" % published, hookwire_key="k")
            published += 1
            await callbacks.wait_for_posts(published)
    return published, len(callbacks.posted)


async def test_a_quiet_hub_delivers_by_the_publishing_commit(running_hub: RunHub) -> None:
    async def enough(_: int) -> bool:
        return await direct_deliveries(hub) >= 3

    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        published, arrived = await publish_until(hub, callbacks, enough)
    assert published == arrived


async def test_a_hub_that_may_not_takes_the_outbox(running_hub: RunHub) -> None:
    async def enough(published: int) -> bool:
        return published == 5

    async with running_hub(ALL_ROLES, direct_deliveries=False) as hub, serve_callbacks() as callbacks:
        published, arrived = await publish_until(hub, callbacks, enough)
        found = await direct_deliveries(hub)
    assert (published, arrived, found) == (5, 5, 0)
