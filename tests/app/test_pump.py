"""The reader of `hookwire pump` judges what arrives (issue 4 item 10, RR-01); the writer is seen at work elsewhere."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.pump import PumpOptions, Verified, pump, verify
from db.pool import PoolOptions, open_database
from relay.kafka_reader import Arrival

OPTIONS = PumpOptions(keys=2, records=4, run="here")


async def arriving(text: str) -> AsyncIterator[Arrival | None]:
    """Words are key and number; `.` is a moment in which nothing comes, `x` is another run's."""
    for word in text.split():
        if word == ".":
            yield None
        elif word == "x":
            yield Arrival("a", b"", (("Seq", b"1"), ("Run", b"other")))
        else:
            yield Arrival(word[0], b"", (("Seq", word[1:].encode()), ("Run", b"here")))
    while True:
        yield None


@pytest.mark.parametrize(
    ("text", "verified", "holds"),
    [
        ("a1 b2 a3 b4", Verified(4, 0, 0, 0), True),
        ("b2 a1 . x b4 a3", Verified(4, 0, 0, 0), True),
        ("a1 a3 a1 a3 b2 b4", Verified(4, 0, 0, 2), True),
        ("a3 a1 b2 b4", Verified(4, 0, 1, 0), False),
        ("a1 b2 b4", Verified(3, 1, 0, 0), False),
        ("", Verified(0, 4, 0, 0), False),
    ],
    ids=["all", "keys apart", "repeated", "disordered", "lost", "nothing"],
)
async def test_what_arrives_is_judged(text: str, verified: Verified, holds: bool) -> None:
    found = await verify(arriving(text), OPTIONS, 0.05, lambda _: None)
    assert (found, found.holds) == (verified, holds)


async def test_events_of_our_own_are_pumped_too(database_url: str) -> None:
    database = await open_database(PoolOptions(database_url, connections_min=1, connections_max=1))
    sql = await asyncpg.connect(database_url)
    try:
        await pump(database, PumpOptions(keys=3, records=50, topic="load", run="r"), lambda _: None)
        rows = await sql.fetch(
            "SELECT topic, headers::jsonb->>'seq' AS seq, xmin::text FROM hookwire.events ORDER BY id"
        )
    finally:
        await sql.close()
        await database.aclose()
    assert [(r["topic"], int(r["seq"])) for r in rows] == [("load", n) for n in range(1, 51)]
    assert len({r["xmin"] for r in rows}) == 3
