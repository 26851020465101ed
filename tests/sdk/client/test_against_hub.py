"""The client against a real hub: publish, publish_many, nouns, pages, pull (FD-01 to FD-10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookwire import AsyncHookwire, Conflict, Event, Forbidden, Hookwire, NotFound
from tests.app.conftest import RunHub, RunningHub
from tests.waiting import block_until, until

WAIT_SECONDS = 60


@asynccontextmanager
async def clients(running_hub: RunHub) -> AsyncIterator[tuple[RunningHub, AsyncHookwire, Hookwire]]:
    async with running_hub(roles=("api", "relay", "deliver")) as hub, AsyncHookwire(hub.url) as tasks:
        with Hookwire(hub.url) as threads:
            yield hub, tasks, threads


async def test_an_event_is_published_once_and_told_with_all_that_identifies_it(running_hub: RunHub) -> None:
    """FD-01 FD-03 FD-05."""
    async with clients(running_hub) as (hub, tasks, threads):
        first = await tasks.publish("a.b", {"n": "é"}, key="kéy", headers={"Own": "x", "hookwire-ttl": "60"})
        again = await asyncio.to_thread(
            threads.publish, "a.b", {"n": "é"}, key="kéy", headers={"own": "x"}, idempotency_key=first.idempotency_key
        )
        rows = await hub.sql("SELECT key, content_type, headers::text, payload FROM hookwire.events")

        assert (again.id, again.replayed, first.replayed, first.sequence) == (
            first.id, True, False, int(first.id.rpartition("_")[2]),
        )  # fmt: skip
        assert first.notice.startswith("nobody listens")
        assert rows == [("kéy", "application/json", '{"own": "x", "hookwire-ttl": "60"}', '{"n":"é"}'.encode())]


async def test_many_events_have_an_outcome_each_in_their_order(running_hub: RunHub) -> None:
    """FD-10."""
    async with clients(running_hub) as (hub, tasks, _):
        events = [Event("t.one" if n % 3 else "t.two", n, key=f"k{n % 7}") for n in range(2_500)]
        events += [Event("t.one", b"\x00", key="k", content_type="x/y"), Event("t.one", idempotency_key="same", data=1)]
        events += [Event("t.one", idempotency_key="same", data=2), Event("t.one", "x" * 1_100_000)]
        outcomes = await tasks.publish_many(events, timeout_seconds=WAIT_SECONDS)
        again = await tasks.publish_many([outcome.event for outcome in outcomes[:10]])
        stored = await hub.sql(
            "SELECT array_agg(convert_from(payload, 'UTF8')::int ORDER BY id) FROM hookwire.events"
            " WHERE content_type = 'application/json' AND key IS NOT NULL GROUP BY topic, key"
        )

        assert [one.outcome for one in outcomes[:2_502]] == ["stored"] * 2_502
        assert [(one.outcome, one.status) for one in outcomes[2_502:]] == [("conflict", 422), ("error", 413)]
        assert [one.published.id for one in again] == [one.published.id for one in outcomes[:10]]
        assert all(numbers == sorted(numbers) for (numbers,) in stored)


async def test_nouns_make_list_and_change_and_errors_say_what_is_wrong(running_hub: RunHub) -> None:
    """FD-02 FD-04 FD-06."""
    async with clients(running_hub) as (_, tasks, threads):
        made = await tasks.subscriptions.create(topic="a.*", callback="http://127.0.0.1:9000/", name="acme")
        changed = await asyncio.to_thread(threads.subscriptions.change, made.id, name="other", description=None)
        for number in range(7):
            await tasks.publish("a.b", number)
        events = [event.id async for event in tasks.events.list(topic="a.b", limit=3)]
        with pytest.raises(NotFound) as missing:
            await tasks.subscriptions.get("sub_none")
        with pytest.raises(Conflict) as conflict:
            await tasks.jobs.complete("0" * 32, receipt="job_x_1")

        assert (made.secret[:6], changed.name, len(set(events)), made.secret in repr(made)) == (
            "whsec_",
            "other",
            7,
            False,
        )
        assert (missing.value.status, missing.value.request_id is None) == (404, False)
        assert conflict.value.title


async def test_a_token_that_is_missing_is_named(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub:
        with pytest.raises(Forbidden, match="401"):
            await AsyncHookwire(hub.url).publish("a", 1)


@pytest.mark.parametrize("name", [None, "billing"])
async def test_a_loop_acknowledges_what_its_body_ended_and_releases_the_rest(
    running_hub: RunHub, name: str | None
) -> None:
    """FD-09: a break releases the current event, and those that were fetched with it."""
    async with clients(running_hub) as (_, tasks, threads), asyncio.timeout(WAIT_SECONDS):
        seen: list[tuple[int, int]] = []
        async with tasks.pull("o.*", name=name, ordered=True) as events:
            for number in range(4):
                await tasks.publish("o.x", number, key="k")
            async for event in events:
                seen.append((event.data, event.attempts))
                if event.data == 2:
                    break
        left = [one.id async for one in tasks.subscriptions.list(topic="o.*")]

        def threaded() -> None:
            with threads.pull("o.*", name=name, ordered=True) as events:
                for event in events:
                    seen.append((event.data, event.attempts))
                    if event.data == 3:
                        return

        if name is not None:
            await asyncio.to_thread(threaded)
            assert [data for data, _ in seen] == [0, 1, 2, 2, 3]
        assert (len(left), [data for data, _ in seen[:3]]) == (0 if name is None else 1, [0, 1, 2])


async def test_leases_are_extended_in_a_long_body_and_its_exception_comes_out_unchanged(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FD-09: by a task and by a thread; the event is handed out again."""
    extended: list[str] = []

    def told(kind: str, extend: Callable[..., Any]) -> Callable[..., Any]:
        def spy(*arguments: Any, **options: Any) -> Any:
            extended.append(kind)
            return extend(*arguments, **options)

        return spy

    async with clients(running_hub) as (_, tasks, threads):
        monkeypatch.setattr(tasks.subscriptions, "extend", told("task", tasks.subscriptions.extend))
        monkeypatch.setattr(threads.subscriptions, "extend", told("thread", threads.subscriptions.extend))
        attempts: list[int] = []

        async def by_task() -> None:
            async with tasks.pull("o.*", name="billing", lease_seconds=2) as events:
                await tasks.publish("o.x")
                async for event in events:
                    attempts.append(event.attempts)
                    await until(lambda: "task" in extended, WAIT_SECONDS)
                    raise LookupError

        def by_thread() -> None:
            with threads.pull("o.*", name="billing", lease_seconds=2) as events:
                for event in events:
                    attempts.append(event.attempts)
                    block_until(lambda: "thread" in extended, WAIT_SECONDS)
                    raise LookupError

        [of_task] = await asyncio.gather(by_task(), return_exceptions=True)
        [of_thread] = await asyncio.gather(asyncio.to_thread(by_thread), return_exceptions=True)

    assert ([type(of_task), type(of_thread)], attempts) == ([LookupError, LookupError], [1, 2])
