"""What failed deliveries mean for RabbitHub's messages and subscriptions: every row of its policy matrix."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.settings.settings import SettingsRefused, load_settings
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.test_rabbithub import Q, form
from tests.hub.callback import Callbacks, answers, reset, serve_callbacks
from tests.waiting import until

SUBSCRIBE = "/rabbithub/subscribe/q/q"
LIMIT = {"rabbithub_deactivate": "limit", "rabbithub_errors_max": 2, "rabbithub_errors_seconds": 600}
FIRST, NEVER = {"rabbithub_deactivate": "first"}, {"rabbithub_deactivate": "never"}
DEAD = {"rabbithub_on_http_error": "dead_letter"}


async def waiting(hub: RunningHub) -> int:
    """Messages that wait in the queue."""
    ((count,),) = await hub.sql(
        "SELECT count(*) FROM hookwire.deliveries d JOIN hookwire.rabbithub_resources q ON q.source = d.subscription_id"
    )
    return int(count)


async def dead(hub: RunningHub) -> int:
    return len(await hub.sql("SELECT FROM hookwire.dead_letters"))


async def consumed(hub: RunningHub, callbacks: Callbacks, messages: int) -> None:
    """A queue with these messages and one consumer."""
    await hub.client.put(f"{Q}/q")
    for number in range(messages):
        await hub.client.post(f"{Q}/q", content=b"%d" % number)
    await until(lambda: hub.sql("SELECT FROM hookwire.deliveries HAVING count(*) = $1", messages))
    assert (await hub.client.post(SUBSCRIBE, data=form(callbacks, "t"))).status_code == 204


async def shown(hub: RunningHub) -> dict[str, Any]:
    (found,) = (await hub.client.get("/rabbithub/subscriptions")).json()["subscriptions"]
    return dict(found)


@pytest.mark.parametrize(
    ("policy", "status", "posts", "dead_letters", "left"),
    [
        (FIRST, "inactive", 1, 0, 4),
        (NEVER, "active", 8, 4, 0),
        (LIMIT, "inactive", 3, 0, 4),
        (DEAD | FIRST, "inactive", 1, 1, 3),
        (DEAD | NEVER, "active", 4, 4, 0),
        (DEAD | LIMIT, "inactive", 3, 3, 1),
    ],
    ids=["requeue first", "requeue never", "requeue limit", "dead first", "dead never", "dead limit"],
)
async def test_a_consumer_that_refuses_is_treated_as_the_policy_says(
    running_hub: RunHub, policy: dict[str, Any], status: str, posts: int, dead_letters: int, left: int
) -> None:
    """RH-41, RH-42, RH-43: four messages, one consumer that answers 500, one repetition in the schedule."""
    async with running_hub(ALL_ROLES, retry_schedule_seconds=(1,), **policy) as hub, serve_callbacks() as callbacks:
        callbacks.script["/cb?hub.topic="] = answers(500)
        await consumed(hub, callbacks, 4)
        await callbacks.wait_for_posts(posts)

        async def settled() -> bool:
            found = (await shown(hub))["status"], await dead(hub), await waiting(hub)
            return found == (status, dead_letters, left)

        await until(settled)
        assert len(callbacks.posted) == posts


async def test_what_gets_no_answer_is_never_dead_at_once(running_hub: RunHub) -> None:
    """RH-41: network errors are requeued whatever the policy for answers is, until the schedule ends. The connection
    of the verification is closed: a POST on it that meets a reset would be sent once more within its attempt.
    """
    async with running_hub(ALL_ROLES, retry_schedule_seconds=(0, 0), **DEAD) as hub, serve_callbacks() as callbacks:
        callbacks.script |= {"/cb": answers(200, headers="Connection: close\r\n"), "/cb?hub.topic=": reset}
        await consumed(hub, callbacks, 1)
        await until(lambda: dead(hub))

        assert [body for *_, body in callbacks.posted] == [b"0"] * 3


async def test_a_refused_message_delays_no_other(running_hub: RunHub) -> None:
    """RH-41: it waits in its queue for its next attempt, and the same consumer gets the next one meanwhile."""
    async with running_hub(ALL_ROLES, retry_schedule_seconds=(1,)) as hub, serve_callbacks() as callbacks:

        async def refuses_the_first(writer: asyncio.StreamWriter, challenge: bytes) -> None:
            await answers(500 if len(callbacks.posted) == 1 else 204)(writer, challenge)

        callbacks.script["/cb?hub.topic="] = refuses_the_first
        await consumed(hub, callbacks, 2)
        posts = await callbacks.wait_for_posts(3)

        assert [(body, about["x-amqp-redelivered"]) for _, about, body in posts] == [
            (b"0", "false"), (b"1", "false"), (b"0", "true"),
        ]  # fmt: skip


async def test_errors_are_counted_until_it_subscribes_again(running_hub: RunHub) -> None:
    """RH-32, RH-44, RD-16: per subscription, in the database."""
    async with running_hub(ALL_ROLES, retry_schedule_seconds=(0,), **FIRST) as hub, serve_callbacks() as callbacks:
        callbacks.script["/cb?hub.topic="] = answers(400)
        await consumed(hub, callbacks, 1)
        found = await hub.until("/rabbithub/subscriptions/errors", lambda answer: answer["errors"])
        (error,) = found["errors"]
        callbacks.script["/cb?hub.topic="] = answers(204)
        await hub.client.post(SUBSCRIBE, data=form(callbacks, "t"))
        await callbacks.wait_for_posts(2)

        assert error["first_error_time_microsec"] == error["last_error_time_microsec"]
        assert {name: error[name] for name in ("resource", "queue", "topic", "callback", "error_count")} == {
            "resource": "/", "queue": "q", "topic": "t", "callback": callbacks.url(), "error_count": 1,
        }  # fmt: skip
        assert error["last_error_msg"] == "answered 400"
        assert (await hub.client.get("/rabbithub/subscriptions/errors")).json() == {"errors": []}


@pytest.mark.parametrize(
    "settings",
    [
        {"DEACTIVATE": "limit"},
        {"DEACTIVATE": "limit", "ERRORS_MAX": "3"},
        {"DEACTIVATE": "first", "ERRORS_MAX": "3", "ERRORS_SECONDS": "60"},
        {"ERRORS_SECONDS": "60"},
    ],
    ids=["no limit", "half a limit", "first with a limit", "never with a limit"],
)
def test_a_limit_goes_with_its_policy_only(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """RH-43: both or neither; RabbitHub's combination that is not allowed is refused at the start."""
    for name, value in settings.items():
        monkeypatch.setenv(f"HOOKWIRE_RABBITHUB_{name}", value)

    with pytest.raises(SettingsRefused, match="rabbithub_errors_max"):
        load_settings()


async def test_a_consumer_gets_no_more_in_a_second_than_it_wants(running_hub: RunHub) -> None:
    """RH-35: one token bucket in the whole fleet; subscribing again changes the rate at once, none ends it (RD-15)."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await hub.client.put("/rabbithub/endpoint/x/e")
        for more in ({"max_tps": "2"}, {"maxtps": "3"}, {}):
            answer = await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks, **more))
            assert answer.status_code == 204
            ((rate,),) = await hub.sql("SELECT rate_per_second FROM hookwire.subscriptions")
            assert rate == ({"max_tps": 2, "maxtps": 3}.get(next(iter(more), "")))
        await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks, max_tps="2"))
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        for number in range(4):
            await hub.client.post("/rabbithub/endpoint/x/e", content=b"%d" % number)
        await callbacks.wait_for_posts(4)

        assert loop.time() - started_at >= 0.9


async def test_operators_hear_of_leases_that_end_soon_once(
    running_hub: RunHub, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RH-47, RH-56, RD-03: days are days; what is looked for again and again is told once."""
    monkeypatch.setattr("hub.rabbithub.queues._TELL_SECONDS", 0.0)
    async with running_hub(ALL_ROLES, rabbithub_tell_expiry_days=2) as hub, serve_callbacks() as callbacks:
        await hub.subscribe("hookwire.operator", receiver.callback)
        await hub.client.put("/rabbithub/endpoint/x/e")
        for path, lease in (("/soon", "172000"), ("/later", "300000")):
            await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks, path=path, lease_seconds=lease))
        await receiver.wait_for(1)
        await hub.client.post("/rabbithub/subscribe/x/e", data=form(callbacks, path="/last", lease_seconds="172000"))
        told = [json.loads(one.body) for one in await receiver.wait_for(2)]
        soon = (await hub.client.get("/rabbithub/subscriptions?hub.expires=2")).json()["subscriptions"]

        assert [(notice["type"], notice["callback"]) for notice in told] == [
            ("subscription.expiring", callbacks.url("/soon")), ("subscription.expiring", callbacks.url("/last")),
        ]  # fmt: skip
        assert [one["callback"] for one in soon] == [callbacks.url("/soon"), callbacks.url("/last")]
