"""hookwire.open_deliveries: the meanings of a delivery's due_at by name (docs/adr/0048-one-column-says-when.md)."""

from typing import Any

from tests.webhooks.harness import Harness, delivery_harness

CALLBACK = "http://127.0.0.1:8000/"
STATES = """
    SELECT d.event_id, d.state, d.available_at <= now(), d.available_at > now(), d.lease_until > now()
    FROM hookwire.open_deliveries d ORDER BY d.event_id
"""
WAITING, LATER = ("waiting", True, False, None), ("waiting", False, True, None)
CLAIMED, BLOCKED, PARKED = ("claimed", None, None, True), ("blocked", None, None, None), ("parked", None, None, None)


async def states(harness: Harness) -> list[tuple[Any, ...]]:
    return [tuple(row)[1:] for row in await harness.sql.fetch(STATES)]


async def test_a_delivery_waits_is_claimed_waits_again_is_blocked_or_parked(database_url: str) -> None:
    """HO-11: a state and one time for each meaning."""
    async with delivery_harness(database_url) as harness:
        subscription = await harness.subscribe(CALLBACK, ordered=True)
        await harness.deliver(b"1", b"2", key="k")
        seen = [await states(harness)]
        rows = await harness.database.fetch("delivery.claim", [subscription], [9], 15.0, 5.0, None)
        seen.append(await states(harness))
        await harness.sql.execute(
            "UPDATE hookwire.deliveries SET fence = NULL, due_at = now() + interval '1 h' WHERE fence = $1",
            rows[0]["fence"],
        )
        seen.append(await states(harness))
        await harness.sql.execute(
            "UPDATE hookwire.deliveries SET due_at = 'infinity', parked_at = now() WHERE event_id = $1",
            rows[0]["event_id"],
        )
        assert [*seen, await states(harness)] == [
            [WAITING, BLOCKED], [CLAIMED, BLOCKED], [LATER, BLOCKED], [PARKED, BLOCKED],
        ]  # fmt: skip
