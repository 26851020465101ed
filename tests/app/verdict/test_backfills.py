"""Backfills that nobody carries on are told by the verdict, the command, the doctor and the API (GU-01, WH-P03)."""

from __future__ import annotations

from app.checks.lakes import lake_checks
from app.verdict.facts import read_facts
from app.verdict.judge import judge
from db.pool import PoolOptions
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import ALL_ROLES, RunHub, opened
from tests.app.web.console.harness import browsing

_RUNS = """
WITH made AS (
    INSERT INTO hookwire.replays (tenant, source, subscription_id, state, actor, lower_event_id, last_event_id,
        upper_event_id, replayed, due_at, created_at, updated_at)
    SELECT 'default', 'lake', s.id, w.state, 'ada', 0, 50, 100, 50, '9999-01-01Z', now() - interval '2 h',
        now() - interval '1 h'
    FROM hookwire.subscriptions s, unnest($1::text[]) WITH ORDINALITY AS w(state, n) ORDER BY w.n RETURNING id
)
INSERT INTO hookwire.backfills (replay_id, lake, topics, kafka_topics, events, erased_at_start, before_live, skips,
    attempts_max, holder, lease_until, why)
SELECT m.id, 'file:///lake', '{orders}', '{orders}', 1000, 0, false, false, 3, 'host-7',
       now() + make_interval(mins => w.lease_minutes), w.why
FROM made m JOIN unnest($2::integer[], $3::text[]) WITH ORDINALITY AS w(lease_minutes, why, n) ON w.n = m.id
"""
_CASES = {
    "it stopped at": ("paused", None, "server_error 500"),
    "its process host-7 is gone since": ("running", -5, None),
    "it was resumed at": ("running", None, "it was interrupted"),
    "is held": ("running", 1, None),
    "was paused by a person": ("paused", None, None),
    "is done": ("done", None, None),
    "was cancelled": ("cancelled", None, "it was cancelled"),
}


async def test_a_backfill_that_nobody_carries_on_is_told_by_every_face(running_hub: RunHub) -> None:
    """GU-01: `status` and `doctor` were silent, and the API said `running` with the same forecast for ever."""
    async with running_hub(ALL_ROLES) as hub, opened(hub.database_url) as (database, sql):
        await hub.subscribe("orders", "http://127.0.0.1:9000/")
        await sql.execute(_RUNS, *zip(*_CASES.values(), strict=True))
        parts = judge(await read_facts(database)).of("backfill")
        checks = [one for one in await lake_checks(PoolOptions(hub.database_url)) if "backfill" in one.subject]
        await hub.until("/status", lambda found: found["verdict"] == "trouble")
        code, output, _ = await hookwire(hub, "status")
        async with browsing(hub) as browser:
            page = (await browser.page("replays/replay_1")).text
        replays = (await hub.client.get("/replays")).json()["items"]
        resumed = (await hub.client.post("/replays/replay_1/resume", json={})).json()

    told = {part.name: (part.state, part.reason, part.topic) for part in parts}
    cures = {name: f"run `hookwire pipeline backfill --resume {name}` or `--cancel {name}`" for name in told}
    assert [told[f"replay_{n}"][0] for n in (1, 2, 3)] == ["failing", "down", "down"]
    for number, words in enumerate(list(_CASES)[:3], 1):
        _, reason, topic = told[f"replay_{number}"]
        assert reason.startswith(words), reason
        assert reason.endswith(f"; 50 of 1,000 events sent; {cures[f'replay_{number}']}"), reason
        assert topic == "orders"
    assert (len(told), code, output.count("backfill replay_")) == (3, 1, 3), output
    assert [(one.level, one.detail) for one in checks] == [("warn", told[f"replay_{n}"][1]) for n in (1, 2, 3)]
    assert "server_error 500" in page
    answers = {one["id"]: (one["is_held"], one["why"], one["seconds_left"] is None) for one in replays}
    assert answers["replay_1"] == (False, "server_error 500", True)
    assert answers["replay_2"] == (False, None, True)
    assert answers["replay_4"] == (True, None, False)
    assert (resumed["state"], resumed["is_held"], resumed["seconds_left"]) == ("running", False, None)
