"""Acts on everything that matches a list: counted, confirmed, then done in the background."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.console.harness import Browser, Page, browsing

_MADE = """
WITH s AS (
    INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state, ordered)
    SELECT 'sub_' || n, 'webhook', 'a', 'http://127.0.0.1:9/', 'disabled', true FROM generate_series(1, 2) AS n
    RETURNING id, public_id
), e AS (
    INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
    SELECT n, now(), false, 'default', CASE n WHEN 1 THEN 'b' ELSE 'a' END, 'k', '{}', '{webhooks}', 'x'
    FROM generate_series(1, 3000) AS n RETURNING id
), d AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)
    SELECT e.id, s.id, 'default', CASE e.id % 2 WHEN 0 THEN 'declined' ELSE 'exhausted' END, 3
    FROM e, s WHERE s.public_id = 'sub_1'
)
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant, lane)
SELECT e.id, s.id, CASE e.id WHEN 1 THEN now() ELSE 'infinity' END, now(), 'default', 'k' FROM e, s
"""
_LEFT = """
SELECT (SELECT count(*) FROM hookwire.dead_letters WHERE NOT on_purpose), (SELECT count(*) FROM hookwire.deliveries),
       (SELECT count(*) FROM hookwire.dead_letters WHERE on_purpose), (SELECT count(*) FROM hookwire.jobs)
"""


async def done(hub: RunningHub, browser: Browser, address: str, **fields: str) -> tuple[str, str]:
    """What the form counted, and the replay that has done it."""
    counted = await browser.page(address)
    answer = await browser.send_form(counted, address, **fields)
    replay = answer.url.path.rpartition("/")[2]
    await hub.until(f"/replays/{replay}", lambda one: one["state"] == "done")
    return next(word for word in counted.words if "would be" in word), replay


async def test_everything_that_matches_is_counted_confirmed_and_changed_in_the_background(running_hub: RunHub) -> None:
    """CN-07: dead letters are deleted, deliveries given up and jobs cancelled; what the filters leave out stays.

    Where the head of a lane is given up, the next delivery of the lane is due.
    """
    async with running_hub(ALL_ROLES) as hub, browsing(hub) as browser:
        await hub.client.post("/topics/a/events", content=b"x")
        await hub.sql("SELECT setval('hookwire.event_id', 3000)")
        await hub.sql("DELETE FROM hookwire.outbox")
        await hub.sql("DELETE FROM hookwire.events")
        await hub.sql(_MADE)
        await hub.sql("""SELECT hookwire.enqueue(k, '{}') FROM unnest('{x,x,y}'::text[]) AS k""")
        links = (await browser.page("dead-letters?kind=exhausted&subscription_id=sub_1")).links
        told = [
            await done(hub, browser, "dead-letters/all/purge?kind=exhausted&subscription_id=sub_1"),
            await done(hub, browser, "jobs/all/cancel?kind=x"),
            await done(hub, browser, "undelivered/all/give-up?subscription_id=sub_2", reason="obsolete"),
            await done(hub, browser, "undelivered/all/give-up?topic=b"),
        ]
        replays = (await hub.client.get("/replays")).json()["items"]
        [left] = await hub.sql(_LEFT)
        due = await hub.sql("SELECT event_id FROM hookwire.deliveries WHERE isfinite(due_at)")

        assert "dead-letters/all/purge?subscription_id=sub_1&kind=exhausted" in links
        assert [words for words, _ in told] == [
            "1,500 dead letters would be deleted.", "2 jobs would be cancelled.",
            "3,000 open deliveries would be given up.", "1 open delivery would be given up.",
        ]  # fmt: skip
        assert [(one["act"], one["replayed"], one["reason"]) for one in replays] == [
            ("give_up", 1, None), ("give_up", 3000, "obsolete"), ("cancel", 2, None), ("purge", 1500, None),
        ]  # fmt: skip
        assert (left, due) == ((1500, 2999, 3001, 1), [(2,)])


async def test_other_fields_than_those_that_were_counted_are_counted_before_anything_is_done(
    running_hub: RunHub,
) -> None:
    """CN-07: the first form has counted jobs of one kind; then the field is emptied."""
    async with running_hub() as hub, browsing(hub) as browser:
        await hub.sql("""SELECT hookwire.enqueue(k, '{}') FROM unnest('{x,x,y}'::text[]) AS k""")
        first = await browser.page("jobs/all/cancel?kind=x")
        second = Page((await browser.send_form(first, "jobs/all/cancel", kind="")).text)
        made = await hub.sql("SELECT count(*) FROM hookwire.replays")
        await browser.send_form(second, "jobs/all/cancel")

        told = [next(word for word in page.words if "would be" in word) for page in (first, second)]
        assert told == ["2 jobs would be cancelled.", "3 jobs would be cancelled."]
        assert (made, await hub.sql("SELECT job_kind FROM hookwire.replays")) == ([(0,)], [(None,)])


@pytest.mark.parametrize("filters", ["sink=kafka", "kind=refused"])
async def test_a_list_that_the_form_cannot_narrow_so_far_has_no_button(running_hub: RunHub, filters: str) -> None:
    """CN-07: the form would delete more than the list shows."""
    async with running_hub() as hub, browsing(hub) as browser:
        links = [(await browser.page(f"dead-letters{query}")).links for query in ("", f"?{filters}")]

        assert [any("purge" in link for link in found) for found in links] == [True, False]


@pytest.mark.parametrize(
    "body",
    [
        {"source": "jobs"}, {"source": "events", "act": "purge", "subscription_id": "sub_1"},
        {"source": "deliveries", "act": "give_up", "kinds": ["gone"]}, {"source": "dead_letters", "job_kind": "x"},
        {"source": "jobs", "act": "cancel", "topic": "a"},
    ],
)  # fmt: skip
async def test_members_that_do_not_belong_together_are_refused(shared_hub: RunHub, body: dict[str, Any]) -> None:
    async with shared_hub() as hub:
        await hub.sql(
            "INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)"
            " VALUES ('sub_1', 'webhook', 'a', 'http://a/', 'active') ON CONFLICT DO NOTHING"
        )
        answer = await hub.client.post("/replays", json=body)

        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (400, "invalid-parameter")
