"""A refused record that holds its key, on a real database: later records of the key follow it, in their order."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

from hub.intake.records import RecordIntake
from hub.intake.refusals import KeyIsHeld, Refusals
from hub.topics import Topics
from relay.source import IntakeRefused, SourceRecord, Taken
from tests.hub.intake.test_records import PLACE, Harness, a_record, taking

HOLDING = dataclasses.replace(PLACE, holds=True)
LIMIT = 10
KEPT = "SELECT record_offset, reason, held_keys FROM hookwire.source_refusals ORDER BY id"


def a_keyed(offset: int, key: str, *, large: bool = False) -> SourceRecord:
    """A record as the reader makes it, which is refused if it is large."""
    value = b"%d" % offset + b" " * LIMIT * large
    record = a_record(offset, key, value)
    read = IntakeRefused("too_large", "it is too large") if large else record.read
    return dataclasses.replace(record, key=key, read=read)


async def take(harness: Harness, records: Sequence[SourceRecord], *, intake: RecordIntake | None = None) -> Taken:
    taken = Taken(0, await harness.offset())
    while (first := await harness.offset()) <= records[-1].offset:
        left = [record for record in records if record.offset >= first]
        taken = await (intake or harness.intake).take(HOLDING, first, records[-1].offset + 1, left)
    return taken


def refusals(harness: Harness, body_bytes_max: int = 1_000) -> Refusals:
    return Refusals(harness.database, "aaaaaaaa", {"stock": "t"}.get, body_bytes_max)


async def kept(harness: Harness) -> list[tuple[int, str, int]]:
    """Offset, reason and number of each refused record."""
    rows = await harness.sql.fetch("SELECT record_offset, reason, id FROM hookwire.source_refusals ORDER BY id")
    return [(row[0], row[1], row[2]) for row in rows]


async def test_later_records_of_a_held_key_are_kept_behind_it_and_other_keys_go_on(database_url: str) -> None:
    """Also those of a process that has not seen the refusal, and also if the source no longer holds."""
    async with taking(database_url) as harness:
        await take(harness, [a_keyed(0, "a", large=True), a_keyed(1, "a"), a_keyed(2, "b")])
        other = RecordIntake(
            harness.database, "aaaaaaaa", harness.publisher, Topics(harness.database, auto_create=True)
        )
        await take(harness, [a_keyed(3, "b"), a_keyed(4, "a")], intake=other)
        await harness.intake.take(PLACE, 5, 7, [a_keyed(5, "a"), a_keyed(6, "b")])
        stored = await harness.stored()
        rows = [tuple(row) for row in await harness.sql.fetch(KEPT)]

    assert stored == ["2", "3", "6"]
    assert rows == [(0, "too_large", ["a"]), (1, "behind", ["a"]), (4, "behind", ["a"]), (5, "behind", ["a"])]


@pytest.mark.parametrize("verb", ["retry", "give_up"])
async def test_those_behind_follow_in_their_order_before_the_key_opens(database_url: str, verb: str) -> None:
    async with taking(database_url) as harness:
        await take(harness, [a_keyed(0, "a", large=True), a_keyed(1, "a"), a_keyed(2, "b"), a_keyed(3, "a")])
        (_, _, first), *_ = await kept(harness)
        settled = await getattr(refusals(harness), verb)(first, "me", None)
        await take(harness, [a_keyed(4, "a")])
        stored = [text.strip() for text in await harness.stored()]
        left = await kept(harness)

    assert (settled.released, settled.held_by, left) == (2, None, [])
    assert stored == ["2", *(["0"] if verb == "retry" else []), "1", "3", "4"]


async def test_one_behind_that_is_no_event_either_holds_the_key_from_then_on(database_url: str) -> None:
    """It names its own reason then, and a record behind it cannot be published before it."""
    async with taking(database_url) as harness:
        records = [a_keyed(0, "a", large=True), a_keyed(1, "a"), a_keyed(2, "a", large=True), a_keyed(3, "a")]
        await take(harness, records)
        before = await kept(harness)
        settled = await refusals(harness, LIMIT).give_up(before[0][2], "me", None)
        after = await kept(harness)
        with pytest.raises(KeyIsHeld, match=f"refusal_{after[0][2]} holds its key"):
            await refusals(harness).retry(after[1][2], "me", None)
        stored = await harness.stored()

    assert [row[:2] for row in before] == [(0, "too_large"), (1, "behind"), (2, "too_large"), (3, "behind")]
    assert (settled.released, settled.held_by, stored) == (1, before[2][2], ["1"])
    assert [row[:2] for row in after] == [(2, "too_large"), (3, "behind")]


@pytest.mark.parametrize("seed", [1, 2])
async def test_whatever_is_refused_retried_and_skipped_keys_keep_their_order(database_url: str, seed: int) -> None:
    """KS-21: each record is stored once, skipped, or kept; the events of a key rise as its records do."""
    chance = random.Random(seed)
    skipped: set[int] = set()
    taken: dict[int, str] = {}
    async with taking(database_url) as harness:
        intakes = [
            harness.intake,
            RecordIntake(harness.database, "aaaaaaaa", harness.publisher, Topics(harness.database, auto_create=True)),
        ]
        for _ in range(40):
            batch = [
                a_keyed(len(taken) + number, chance.choice("abcd"), large=chance.random() < 0.1) for number in range(8)
            ]
            taken |= {record.offset: str(record.key) for record in batch}
            await take(harness, batch, intake=chance.choice(intakes))
            rows = await kept(harness)
            if rows and chance.random() < 0.5:
                offset, _, number = chance.choice(rows)
                if chance.random() < 0.5:
                    await refusals(harness, chance.choice((LIMIT, 1_000))).give_up(number, "me", None)
                    skipped.add(offset)
                else:
                    try:
                        await refusals(harness, 1_000).retry(number, "me", None)
                    except KeyIsHeld:
                        continue
        stored = [int(text) for text in await harness.stored()]
        waiting = [row[0] for row in await kept(harness)]

    lanes: dict[str, list[int]] = defaultdict(list)
    for offset in stored:
        lanes[taken[offset]].append(offset)
    assert sorted([*stored, *skipped, *waiting]) == [*taken]
    assert {key: lane == sorted(lane) for key, lane in lanes.items()} == dict.fromkeys(lanes, True)
