"""PubSubHubbub 0.3: what the three dialects make of its words, over HTTP and against a scripted subscriber."""

import asyncio
from typing import Any

import pytest

from hub.form import FormDialect
from tests.app.web.api.subscribing.test_hub import client_of
from tests.hub.callback import answers, hang
from tests.hub.harness import TOPIC, Harness
from tests.waiting import until

STRICT = {"dialect": FormDialect.STRICT03}
FORM = b"application/x-www-form-urlencoded"


def asking(harness: Harness, verify: str | list[str] | None = "sync", **more: Any) -> dict[str, Any]:
    form = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.callback": harness.callbacks.url(), "hub.verify": verify}
    return {name: value for name, value in {**form, **more}.items() if value is not None}


@pytest.mark.parametrize("verify", ["sync", "async", ["sync", "async"], "nonsense", None])
@pytest.mark.parametrize("dialect", [FormDialect.OFF, FormDialect.TOLERANT])
async def test_outside_of_strict_mode_the_choice_is_ignored(
    database_url: str, dialect: FormDialect, verify: str | list[str] | None
) -> None:
    """PS-01, PS-02: 202 at once, as WebSub says."""
    async with client_of(database_url, dialect=dialect) as (client, harness):
        response = await client.post("/hub", data=asking(harness, verify))

        assert (response.status_code, response.text) == (202, "")


@pytest.mark.parametrize(
    ("verify", "text"), [(None, "is missing"), ("", "is missing"), ("x", "neither"), ("x,y", "neither")]
)
async def test_strict_mode_wants_a_choice_that_it_knows(database_url: str, verify: str | None, text: str) -> None:
    """PS-01, PS-03, PS-04."""
    async with client_of(database_url, **STRICT) as (client, harness):
        response = await client.post("/hub", data=asking(harness, verify))

        assert (response.status_code, response.text.startswith("hub.verify "), text in response.text) == (
            400,
            True,
            True,
        )


@pytest.mark.parametrize(
    ("verify", "status"),
    [("sync", 204), ("async", 202), (["x", "sync", "async"], 204), ("async,sync", 202), ("SYNC", 204)],
)
async def test_the_first_known_word_wins(database_url: str, verify: str | list[str], status: int) -> None:
    """PS-04, PS-05, PS-06."""
    async with client_of(database_url, **STRICT) as (client, harness), harness.verifying():
        response = await client.post("/hub", data=asking(harness, verify))

        assert response.status_code == status


async def test_sync_is_verified_before_the_answer(database_url: str) -> None:
    """PS-05, PS-07, PS-14: the subscription is there when the 204 is, its signature sha1."""
    async with client_of(database_url, **STRICT) as (client, harness), harness.verifying():
        response = await client.post("/hub", data=asking(harness, **{"hub.verify_token": "t", "hub.secret": "s"}))

        method = await harness.sql.fetchval("SELECT signature_method FROM hookwire.subscriptions")
        assert (response.status_code, await harness.subscriptions(), method) == (
            204,
            [("/cb", "active", 1, "s")],
            "sha1",
        )
        assert harness.callbacks.queries()[0]["hub.verify_token"] == ["t"]


@pytest.mark.parametrize("answer", [*range(300, 309), *range(400, 418), *range(500, 506), "wrong body"])
async def test_sync_answers_why_it_was_not_verified(database_url: str, answer: int | str) -> None:
    """PS-05: asked once, and nothing has changed."""
    async with client_of(database_url, **STRICT) as (client, harness), harness.verifying():
        harness.callbacks.script["/cb"] = answers(answer) if isinstance(answer, int) else answers(200, b"no")
        response = await client.post("/hub", data=asking(harness))

        assert (response.status_code, response.text.startswith("the callback answered ")) == (409, True)
        assert (len(harness.callbacks.targets), await harness.subscriptions()) == (1, [])


async def test_sync_has_one_deadline_and_does_not_take_effect_after_it(database_url: str) -> None:
    """PS-05: nobody verifies here, and who does so later finds nothing to do."""
    async with client_of(database_url, sync_seconds=0.1, **STRICT) as (client, harness):
        response = await client.post("/hub", data=asking(harness))
        async with harness.verifying():
            later = await client.post(
                "/hub", data=asking(harness, "async", **{"hub.callback": harness.callbacks.url("/other")})
            )
            await harness.callbacks.wait_for(1)

        assert (response.status_code, response.text, later.status_code) == (
            409,
            "the callback was not asked in time\n",
            202,
        )
        assert harness.callbacks.queries() == []


async def test_sync_does_not_wait_for_a_callback_that_hangs(database_url: str) -> None:
    """PS-05."""
    async with client_of(database_url, sync_seconds=5.0, **STRICT) as (client, harness):
        harness.callbacks.script["/cb"] = hang
        async with harness.verifying(verification_deadline_seconds=0.2):
            response = await client.post("/hub", data=asking(harness))

        assert response.status_code == 409


@pytest.mark.parametrize(("answer", "gets"), [(answers(500), 4), (answers(200, b"no"), 4), (answers(404), 1)])
async def test_async_is_tried_again_unless_the_callback_says_not_found(
    database_url: str, answer: Any, gets: int
) -> None:
    """PS-06: fresh challenges; afterwards abandoned."""
    async with (
        client_of(database_url, async_retries=(0.01, 0.01, 0.01), **STRICT) as (client, harness),
        harness.verifying(),
    ):
        harness.callbacks.script["/cb"] = answer
        response = await client.post("/hub", data=asking(harness, "async"))
        await until(lambda: harness.sql.fetchval("SELECT true FROM hookwire.intents WHERE state = 'failed'"))

        challenges = {query["hub.challenge"][0] for query in harness.callbacks.queries()}
        assert (response.status_code, len(challenges), await harness.subscriptions()) == (202, gets, [])


@pytest.mark.parametrize(
    ("dialect", "tokens"), [(FormDialect.OFF, None), (FormDialect.TOLERANT, ["t"]), (FormDialect.STRICT03, ["t"])]
)
async def test_a_token_is_echoed_where_0_3_is_known(database_url: str, dialect: FormDialect, tokens: Any) -> None:
    """PS-07."""
    async with client_of(database_url, dialect=dialect) as (client, harness), harness.verifying():
        await client.post("/hub", data=asking(harness, "async", **{"hub.verify_token": "t"}))
        await harness.callbacks.wait_for(1)

        assert harness.callbacks.queries()[0].get("hub.verify_token") == tokens


@pytest.mark.parametrize(("answer", "verified"), [(answers(200), True), (answers(404), False), (answers(500), False)])
async def test_a_subscription_without_a_lease_is_refreshed_before_it_ends(
    database_url: str, answer: Any, verified: bool
) -> None:
    """PS-08, PS-09, WS-67: the same token and secret, a new challenge; who does not echo is not extended."""
    async with client_of(database_url, async_retries=(), **STRICT) as (client, harness), harness.verifying():
        form = asking(harness, **{"hub.verify_token": "t", "hub.secret": "s", "hub.lease_seconds": ""})
        await client.post("/hub", data=form)
        told = harness.callbacks.queries()[0]["hub.lease_seconds"]
        harness.callbacks.script["/cb"] = answer
        await harness.sql.execute("UPDATE hookwire.subscriptions SET lease_until = now() + interval '1 hour'")
        await harness.callbacks.wait_for(2)
        await until(lambda: harness.sql.fetchval("SELECT bool_and(decided_at IS NOT NULL) FROM hookwire.intents"))

        first, second = harness.callbacks.queries()
        extended = await harness.sql.fetchval(
            "SELECT lease_until > now() + interval '1 day' FROM hookwire.subscriptions"
        )
        assert (told, extended, await harness.subscriptions()) == (
            [str(harness.hub.options.lease_seconds_max)], verified, [("/cb", "active", 2 if verified else 1, "s")],
        )  # fmt: skip
        assert second | {"hub.challenge": first["hub.challenge"]} == first != second


async def test_a_refusal_of_the_publisher_is_the_answer(database_url: str) -> None:
    """PS-17: 0.3 knows no hub.mode=denied."""
    async with client_of(database_url, **STRICT) as (client, harness), harness.verifying():
        await harness.sql.execute(
            "INSERT INTO hookwire.topics (tenant, name, validator_url) VALUES ('default', 'a', $1)",
            harness.callbacks.url("/validator"),
        )
        harness.callbacks.script["/validator"] = answers(403, b"members only")
        response = await client.post("/hub", data=asking(harness))

        assert (response.status_code, response.text, harness.callbacks.targets) == (409, "members only\n", [])


@pytest.mark.parametrize("name", ["hub.topic", "hub.callback"])
@pytest.mark.parametrize("dialect", FormDialect)
async def test_a_fragment_is_refused_in_every_dialect(database_url: str, dialect: FormDialect, name: str) -> None:
    """PS-10, WS-27."""
    async with client_of(database_url, dialect=dialect) as (client, harness):
        form = asking(harness)
        response = await client.post("/hub", data=form | {name: form[name] + "#f"})

        assert (response.status_code, response.text.startswith(f"{name} ")) == (400, True)


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"hub.mode": "publish", "hub.url": TOPIC}, 204),
        ({"hub.mode": "publish"}, 400),
        ({"hub.url": TOPIC}, 400),
    ],
)
async def test_a_ping_is_the_same_in_every_dialect(database_url: str, form: dict[str, str], status: int) -> None:
    """PS-11: 204 also without a subscriber."""
    async with client_of(database_url, **STRICT) as (client, _):
        response = await client.post("/hub", data=form)

        assert response.status_code == status


async def test_one_callback_may_have_a_secret_for_each_topic(database_url: str) -> None:
    """PS-16, WS-20, WS-63."""
    async with client_of(database_url, **STRICT) as (client, harness), harness.verifying():
        for topic, secret in (("a", "A"), ("b", "B")):
            form = {"hub.topic": f"http://hub.example/topics/{topic}", "hub.secret": secret}
            await client.post("/hub", data=asking(harness, **form))

        assert [(state, secret) for _, state, _, secret in await harness.subscriptions()] == [
            ("active", "A"),
            ("active", "B"),
        ]


async def test_a_host_of_old_callbacks_is_signed_for_by_sha1(database_url: str) -> None:
    """SG-4, PS-18: whatever it asks for; others have what they asked for."""
    async with client_of(database_url, sha1_hosts=("127.0.0.1",)) as (client, harness), harness.verifying():
        for path in ("/cb", "/other"):
            form = {"hub.hash_algorithms": "sha512", "hub.callback": harness.callbacks.url(path)}
            await client.post("/hub", data=asking(harness, None, **form))
        await until(lambda: harness.sql.fetchval("SELECT count(*) = 2 FROM hookwire.subscriptions"))

        assert await harness.sql.fetchval("SELECT array_agg(signature_method) FROM hookwire.subscriptions") == [
            "sha1",
            "sha1",
        ]


async def test_twenty_sync_requests_at_once_make_one_subscription(database_url: str) -> None:
    """PS-05, TG-H."""
    async with client_of(database_url, sync_seconds=45.0, **STRICT) as (client, harness), harness.verifying():
        responses = await asyncio.gather(*(client.post("/hub", data=asking(harness)) for _ in range(20)))

        assert {response.status_code for response in responses} <= {204, 409}
        assert len(await harness.subscriptions()) == 1
