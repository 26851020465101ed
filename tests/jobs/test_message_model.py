"""A queue against a model of it, through random submissions, claims, settlements, crashes and reaps (JT-11, JB-85)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import asyncpg
import pytest

_STEPS = 150
_DELIVERIES_MAX = 3


@dataclass
class Model:
    """What should be in the queue. Ids rise as they are submitted."""

    free: dict[int, int] = field(default_factory=dict)  # id -> deliveries
    held: dict[int, tuple[int, int]] = field(default_factory=dict)  # id -> claim, deliveries
    accepted: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    old: list[tuple[int, int]] = field(default_factory=list)  # claims that hold nothing any more

    def free_again(self, message: int, *, counts: bool, dies: bool) -> None:
        claim, deliveries = self.held.pop(message)
        self.old.append((message, claim))
        if dies and deliveries >= _DELIVERIES_MAX:
            self.dead.add(message)
        else:
            self.free[message] = deliveries if counts else deliveries - 1


async def _submit(sql: asyncpg.Connection, model: Model, dice: random.Random) -> None:
    for row in await sql.fetch(
        "SELECT hookwire.submit_batch('q', array_fill('x'::bytea, ARRAY[$1::int]))", dice.randint(1, 5)
    ):
        model.free[row[0]] = 0


async def _receive(sql: asyncpg.Connection, model: Model, dice: random.Random) -> None:
    most = dice.randint(1, 5)
    rows = await sql.fetch("SELECT id, claim, deliveries FROM hookwire.receive('q', $1, 3600)", most)
    assert [row["id"] for row in rows] == sorted(model.free)[:most], "the oldest, in order"
    for row in rows:
        assert row["deliveries"] == model.free.pop(row["id"]) + 1, "each claim is counted"
        model.held[row["id"]] = (row["claim"], row["deliveries"])


async def _accept(sql: asyncpg.Connection, model: Model, dice: random.Random) -> None:
    wanted = _some(model, dice)
    rows = await sql.fetch("SELECT * FROM hookwire.accept_held($1, $2)", [m for m, _ in wanted], [c for _, c in wanted])
    done = {message for message, claim in wanted if model.held.get(message, (0, 0))[0] == claim}
    assert {row[0] for row in rows} == done, "what is held, and nothing that is stale"
    for message in done:
        model.old.append((message, model.held.pop(message)[0]))
        model.accepted.add(message)


async def _reject(sql: asyncpg.Connection, model: Model, dice: random.Random) -> None:
    wanted, counts = _some(model, dice), dice.random() < 0.7
    ids, claims = [m for m, _ in wanted], [c for _, c in wanted]
    rows = await sql.fetch("SELECT * FROM hookwire.reject_held($1, $2, counts => $3)", ids, claims, counts)
    done = {message for message, claim in wanted if model.held.get(message, (0, 0))[0] == claim}
    assert {row[0] for row in rows} == done
    for message in done:
        model.free_again(message, counts=counts, dies=counts)


async def _crash(sql: asyncpg.Connection, model: Model, dice: random.Random) -> None:
    """A receiver dies: its leases end, and the reaper comes."""
    lost = [message for message in model.held if dice.random() < 0.5]
    await sql.execute("UPDATE hookwire.messages SET lease_until = now() - interval '1 s' WHERE id = ANY ($1)", lost)
    await sql.execute("SELECT hookwire.reap_messages(1000)")
    for message in lost:
        model.free_again(message, counts=True, dies=True)


def _some(model: Model, dice: random.Random) -> list[tuple[int, int]]:
    """Some that are held, and some that are stale."""
    held = [(message, claim) for message, (claim, _) in model.held.items() if dice.random() < 0.4]
    stale = dice.sample(model.old, min(len(model.old), 3))
    return list(dict([*stale, *held]).items())


async def _check(sql: asyncpg.Connection, model: Model) -> None:
    rows = await sql.fetch("SELECT id, claim, deliveries FROM hookwire.messages")
    assert {row["id"]: row["deliveries"] for row in rows if row["claim"] is None} == model.free
    assert {row["id"]: (row["claim"], row["deliveries"]) for row in rows if row["claim"] is not None} == model.held
    archived = {row["id"] for row in await sql.fetch("SELECT id FROM hookwire.message_archive")}
    dead = {row["id"] for row in await sql.fetch("SELECT id FROM hookwire.dead_messages")}
    assert (archived, dead) == (model.accepted, model.dead)


async def _walk(sql: asyncpg.Connection, seed: int) -> Model:
    await sql.execute(
        "INSERT INTO hookwire.queues (name, history, deliveries_max) VALUES ('q', true, $1)", _DELIVERIES_MAX
    )
    dice, model = random.Random(seed), Model()
    steps: list[Callable[..., object]] = [_submit, _receive, _receive, _accept, _reject, _crash]
    for _ in range(_STEPS):
        await dice.choice(steps)(sql, model, dice)  # type: ignore[misc]
        await _check(sql, model)
    return model


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_queues_behave_as_the_model_whatever_happens(sql: asyncpg.Connection, seed: int) -> None:
    """JT-11, JB-85, JS-13: accepted, live and dead messages are all that were submitted."""
    model = await _walk(sql, seed)
    drawn = await sql.fetchval("SELECT last_value FROM hookwire.message_id")

    assert len(model.free) + len(model.held) + len(model.accepted) + len(model.dead) == drawn
    assert model.accepted
    assert model.dead


_BUGS = {
    "no fence": ("hookwire.held_messages(bigint[], bigint[], text)", r"AND m\.claim = r\.claim", ""),
    "the attempt is not counted": (
        "hookwire.take_messages(text, integer, double precision, jsonb, text, bigint, bigint)",
        r"deliveries = m\.deliveries \+ 1",
        "deliveries = m.deliveries",
    ),
    "newest first": (
        "hookwire.take_messages(text, integer, double precision, jsonb, text, bigint, bigint)",
        r"ORDER BY m\.id LIMIT most",
        "ORDER BY m.id DESC LIMIT most",
    ),
    "the reaper forgets to bury": ("hookwire.reap_messages(integer)", r"m\.deliveries >= ", "m.deliveries > 1000 + "),
    "no archive": ("hookwire.accept_claim(bigint[], bigint, text)", r"AND q\.history", "AND NOT q.history"),
    "accepted without its claim": (
        "hookwire.accept_claim(bigint[], bigint, text)",
        r"AND m\.claim = accept_claim\.claim",
        "",
    ),
}


@pytest.mark.parametrize("bug", _BUGS)
async def test_the_model_catches_seeded_bugs(sql: asyncpg.Connection, bug: str) -> None:
    """JT-25: a test that cannot fail shows nothing."""
    function, pattern, replacement = _BUGS[bug]
    text = await sql.fetchval(f"SELECT pg_get_functiondef('{function}'::regprocedure)")
    broken, places = re.subn(pattern, replacement, text)
    assert places
    await sql.execute(broken)
    with pytest.raises(AssertionError):
        await _walk(sql, 1)
