"""The witness of the rollups: what they say beside what SQL says over all attempts (CN-11)."""

from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from app.maintenance.rollups import Rollups
from db.pool import PoolOptions, open_database
from runtime.duration_histogram import DurationHistogram

_SHARES = (0.5, 0.95, 0.99)
_OF_ATTEMPTS = """
    SELECT a.subscription_id, count(*) AS attempts, count(*) FILTER (WHERE a.decision = 'delivered') AS delivered,
           percentile_disc($1::double precision[]) WITHIN GROUP (ORDER BY a.total_seconds)
               FILTER (WHERE a.total_seconds > 0) AS times
    FROM hookwire.attempts a WHERE a.trigger <> 'end' GROUP BY a.subscription_id
"""


async def miscounted(database_url: str) -> dict[tuple[str, int], str]:
    """Fold what is left, then return each grain and subscription whose numbers are not those of its attempts."""
    database = await open_database(PoolOptions(database_url, connections_min=1, connections_max=2))
    try:
        await Rollups(database).fold()
        return await _differences(database_url)
    finally:
        await database.aclose()


async def _differences(database_url: str) -> dict[tuple[str, int], str]:
    connection = await asyncpg.connect(database_url)
    try:
        attempts = {row["subscription_id"]: row for row in await connection.fetch(_OF_ATTEMPTS, list(_SHARES))}
        rows = await connection.fetch("SELECT * FROM hookwire.attempt_rollups")
    finally:
        await connection.close()
    found: dict[tuple[str, int], str] = {}
    for grain in ("minute", "hour", "day"):
        rolled = {row["subscription_id"] for row in rows if row["grain"] == grain}
        for subscription in rolled | attempts.keys():
            own = [row for row in rows if row["grain"] == grain and row["subscription_id"] == subscription]
            if difference := _difference(own, attempts.get(subscription)):
                found[grain, subscription] = difference
    return found


def _difference(rows: Sequence[Mapping[str, Any]], attempts: Mapping[str, Any] | None) -> str:
    times, counted, delivered = DurationHistogram(), 0, 0
    for row in rows:
        times.add(row["latency_buckets"], row["latency_counts"])
        counted += row["attempts"]
        delivered += row["delivered"]
    if attempts is None:
        return f"{counted} attempts, and there are none"
    if (counted, delivered) != (attempts["attempts"], attempts["delivered"]):
        return f"{counted} and {delivered}, not {attempts['attempts']} and {attempts['delivered']}"
    quantiles = [times.quantile(share) or 0.0001 for share in _SHARES]
    exact = [max(seconds, 0.0001) for seconds in attempts["times"] or [0.0] * len(_SHARES)]
    if any(not 1 / 1.1 <= one / other <= 1.1 for one, other in zip(quantiles, exact, strict=True)):
        return f"{quantiles}, not {exact}"
    return ""
