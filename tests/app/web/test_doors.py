"""POST /in/{source}: webhooks of others, from the signature to the event, and what operators see of it (GW-07)."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import httpx
import pytest
import structlog.testing

from app.maintenance.cleanup import Cleanup
from app.web.problem import Problem
from app.web.publishing.inbound_places import BYTES, Places, Rates
from db.pool import PoolOptions, open_database
from hub.keys import Keys, NewKey, Scope
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import RunHub, RunningHub
from tests.waiting import until

SECRET = "It's a Secret to Everybody"
BODY = b'{"ref":"refs/heads/main","repository":{"full_name":"octocat/hello"}}'


def signed(body: bytes = BODY, secret: str = SECRET, **more: str) -> dict[str, str]:
    """The headers with which GitHub sends a body."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return {"x-github-event": "push", "x-github-delivery": "72d3", "x-hub-signature-256": f"sha256={digest}"} | named


async def put(hub: RunningHub, name: str = "github", **more: Any) -> dict[str, Any]:
    answer = await hub.client.put(f"/in/{name}", json={"preset": "github", "secret": SECRET, **more})
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def send(hub: RunningHub, headers: dict[str, str], body: bytes = BODY, name: str = "github") -> httpx.Response:
    return await hub.client.post(f"/in/{name}", content=body, headers=headers)


async def test_a_webhook_of_github_becomes_one_event_however_often_it_comes(running_hub: RunHub) -> None:
    """GW-07. Its type, delivery id and headers were dropped with 202, and its repeat was a second event."""
    async with running_hub() as hub:
        await put(hub, topic="git.{type}", key="body:repository.full_name")
        first = (await send(hub, signed())).json()
        again = (await send(hub, signed(x_github_hook_id="7", user_agent="GitHub-Hookshot/2"))).json()
        (event,) = await hub.sql("SELECT topic, key, payload, headers::text FROM hookwire.events")
        plain = await hub.client.post("/topics/git.push/events", content=BODY, headers=signed())

    assert (first["topic"], again) == ("git.push", {**first, "replayed": True})
    assert plain.headers["hookwire-notice"] == (
        "dropped: x-github-delivery, x-github-event, x-hub-signature-256; an inbound source (preset github) checks the "
        "signature and keeps type and delivery id"
    )
    headers = {"x-github-event": "push", "x-github-delivery": "72d3"}
    assert (*event[:3], json.loads(event[3])) == ("git.push", "octocat/hello", BODY, headers)


async def test_who_cannot_sign_is_answered_as_at_a_door_that_does_not_exist(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await put(hub)
        answers = [
            await send(hub, headers, body, name)
            for name in ("github", "no-such-door", "a door")
            for headers, body in ((signed(secret="another one"), BODY), ({}, BODY), (signed(), BODY[1:]), ({}, b""))
        ]
        events = await hub.sql("SELECT count(*) FROM hookwire.events")

    found = {(one.status_code, json.dumps({**one.json(), "request_id": ""})) for one in answers}
    assert (len(found), answers[0].status_code, events) == (1, 403, [(0,)])


async def test_a_door_needs_no_key_and_its_settings_need_one(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub:
        await hub.sql(
            "INSERT INTO hookwire.inbound_sources (name, preset, settings, remember_seconds)"
            " VALUES ('github', 'github', '{}', 60)"
        )
        refused = [
            (await hub.client.request(method, f"/in/github{verb}", json={"preset": "github"})).status_code
            for method, verb in (("PUT", ""), ("GET", ""), ("DELETE", ""), ("POST", "/test"))
        ]
        unsigned = await send(hub, {})

    assert (refused, unsigned.status_code) == ([401] * 4, 403)


async def test_both_secrets_are_valid_in_a_rotation_and_no_third(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        for number in range(3):
            found = await put(hub, secret=f"secret number {number}")
        again = await put(hub, secret="secret number 2")
        statuses = [
            (await send(hub, signed(secret=f"secret number {number}"))).status_code for number in range(3)
        ]  # fmt: skip
        stored = await hub.sql("SELECT position('secret'::bytea in sealed) FROM hookwire.inbound_secrets")

    ends = [one["expires_at"] is not None for one in found["secrets"]]
    assert (statuses, ends, again["secrets"] == found["secrets"]) == ([403, 200, 200], [False, True], True)
    assert stored == [(0,), (0,)]


async def test_a_refused_request_is_shown_with_its_reason(running_hub: RunHub) -> None:
    """Also a body under a delivery id that was another one's, and a signed one that is no event."""
    async with running_hub() as hub:
        made = await put(hub)
        await send(hub, signed())
        await send(hub, signed(secret="another one"), b"forged")
        await send(hub, signed(b"{}"), b"{}")
        await send(hub, signed(b"{}", hookwire_hops="9"), b"{}")
        shown = await hub.until("/in/github", lambda found: len(found["refused"]) == 3 and found["accepted"])
        (listed,) = (await hub.client.get("/sources")).json()["items"]
        code, out, err = await hookwire(hub, "sources", "show", "github")

    reasons = [(one["reason"], one["body"]) for one in reversed(shown["refused"])]
    assert reasons == [("wrong_signature", "forged"), ("idempotency-key-reused", "{}"), ("hops", "{}")]
    assert [one["topic"] for one in shown["accepted"]] == ["github.push"]
    assert (listed["kind"], listed["preset"], listed["refused_at"]) == (
        "webhooks", "github", shown["refused"][0]["arrived_at"],
    )  # fmt: skip
    assert (code, made["url"] in out, err) == (1, True, "")


async def test_no_header_that_comes_along_costs_the_event(running_hub: RunHub) -> None:
    """It was 422, which many senders never repeat. What an event cannot have is counted, and named beside the event."""
    values = [b"a" * 1_025, b"a\tb", "a\u00a0b".encode(), b"caf\xe9"]
    async with running_hub() as hub:
        made = await put(hub, headers=["x-trace"])
        given = {name.encode(): value.encode() for name, value in signed().items()}
        lost = {b"x-trace": b"a" * 15_000, b"content-type": "text/grün".encode()}
        answers = [
            await hub.client.post(
                "/in/github", content=BODY, headers={**given, b"x-github-delivery": b"%d" % n, **more}
            )
            for n, more in enumerate([*({b"x-trace": value} for value in values), lost])
        ]
        assert [answer.status_code for answer in answers] == [200] * 5, answers[0].text
        events = await hub.sql("SELECT headers->>'x-trace', content_type FROM hookwire.events ORDER BY id")
        shown = await hub.until("/in/github", lambda found: len(found["accepted"]) == len(answers))
        metrics = (await hub.client.get("/metrics")).text
        code, out, _ = await hookwire(hub, "sources", "show", "github")
        page = (await hub.client.get("/console/inbound/github")).text

    said = "left out: x-trace (limit), content-type (content_type)"
    assert [trace for trace, _ in events] == ["a" * 1_025, "a%09b", "a\u00a0b", "caf%E9", None]
    assert ({kind for _, kind in events}, [one["detail"] for one in shown["accepted"]]) == (
        {None}, [said, None, None, None, None],
    )  # fmt: skip
    for reason in ("limit", "content_type"):
        assert f'hookwire_inbound_headers_left_out_total{{reason="{reason}",source="github"}} 1.0' in metrics
    assert (code, made["url"] in out, said in out, said in page) == (0, True, True, True)


async def test_bodies_are_shown_with_the_scope_payloads_alone(running_hub: RunHub) -> None:
    async with running_hub(access="keys") as hub:
        admin, reader = [await key(hub, scope) for scope in ("admin", "read")]
        await hub.client.put("/in/github", json={"preset": "github", "secret": SECRET}, headers=admin)
        await send(hub, {}, b"body of a stranger")

        async def refused(headers: dict[str, str]) -> list[dict[str, Any]]:
            return (await hub.client.get("/in/github", headers=headers)).json()["refused"]

        async def is_written() -> bool:
            return bool(await refused(admin))

        await until(is_written, 60)
        shown = [[one["body"] for one in await refused(headers)] for headers in (admin, reader)]

    assert shown == [["body of a stranger"], [None]]


async def key(hub: RunningHub, scope: Scope) -> dict[str, str]:
    """The header of a new API key."""
    database = await open_database(PoolOptions(hub.database_url))
    try:
        _, text = await Keys(database).create(NewKey("test", [scope]))
    finally:
        await database.aclose()
    return {"Authorization": f"Bearer {text}"}


async def test_the_commands_make_try_and_remove_a_door(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        added = await hookwire(hub, "sources", "add", "github", "--topic", "git.{type}")
        tried = await hookwire(hub, "sources", "test", "github", "--publish")
        events = await hub.sql("SELECT topic FROM hookwire.events")
        listed = await hookwire(hub, "sources", "list")
        removed = await hookwire(hub, "sources", "remove", "github")
        stripe = await hookwire(hub, "sources", "add", "stripe")
        audited = await hub.sql("SELECT action FROM hookwire.audit WHERE action LIKE 'source.%' ORDER BY id")

    assert [one[0] for one in (added, tried, listed, removed, stripe)] == [0, 0, 0, 0, 2], (added, tried, stripe)
    assert ("secret, shown only now: " in added[1], events, "git.{type}" in listed[1]) == (True, [("git.push",)], True)
    assert "Stripe makes the secret" in stripe[2]
    assert audited == [("source.put",), ("source.test",), ("source.remove",)]


async def test_delivery_ids_are_kept_for_the_time_of_their_door(running_hub: RunHub) -> None:
    """Stripe repeats for three days; an Idempotency-Key of a publisher is known for one."""
    async with running_hub() as hub:
        await put(hub, remember_seconds=259_200)
        for delivery in ("one", "two"):
            await send(hub, signed(x_github_delivery=delivery))
        await hub.publish("orders", idempotency_key="one")
        await hub.sql(
            "UPDATE hookwire.idempotency_keys SET accepted_at = now() - CASE WHEN key LIKE 'github:two%'"
            " THEN interval '73 hours' ELSE interval '71 hours' END"
        )
        database = await open_database(PoolOptions(hub.database_url))
        await Cleanup(database, 86_400).once()
        await database.aclose()
        kept = await hub.sql("SELECT split_part(key, E'\\x1f', 1) FROM hookwire.idempotency_keys")

    assert kept == [("github:one",)]


async def test_the_rate_counts_verified_requests_alone(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await put(hub, rate_per_minute=1)
        statuses = [(await send(hub, headers)).status_code for headers in ({}, {}, signed(), signed(), {})]

    assert statuses == [403, 403, 200, 429, 403]


def test_one_address_cannot_take_all_places_of_a_door() -> None:
    """An IPv6 network of 64 bits counts as one address; a proxy on a Unix socket speaks for many."""
    places, rates = Places(of_door=2, of_address=1, in_all=3), Rates()
    with places.take("a", "2001:db8::1"):
        with pytest.raises(Problem, match="busy"), places.take("a", "2001:db8::2"):
            pass
        with places.take("a", "192.0.2.1"), pytest.raises(Problem, match="busy"), places.take("a", "192.0.2.2"):
            pass
        with places.take("b", ""), places.take("c", ""):
            pass
    assert rates.admits("a", None)


def test_all_unverified_bodies_together_are_bounded_in_bytes() -> None:
    places = Places()
    with places.take("a", "192.0.2.1") as first:
        first.add(BYTES)
        with pytest.raises(Problem, match="busy"), places.take("b", "192.0.2.2") as second:
            second.add(1)
    with places.take("b", "192.0.2.2") as second:
        second.add(BYTES)
    assert second.size_bytes == BYTES


async def test_a_former_secret_is_valid_again_when_it_is_put_back(running_hub: RunHub) -> None:
    """It ended a day later, and GitHub repeats nothing."""
    async with running_hub() as hub:
        for secret in ("first secret", "second secret", "first secret"):
            found = await put(hub, secret=secret)
        statuses = [(await send(hub, signed(secret=f"{word} secret"))).status_code for word in ("first", "second")]

    stays = [(one["number"], one["expires_at"] is None) for one in found["secrets"]]
    assert (statuses, stays) == ([200, 200], [(3, True), (2, False)])


async def test_a_secret_that_does_not_fit_another_preset_is_refused_or_over(running_hub: RunHub) -> None:
    """Every POST ended with 500, rightly signed ones too."""
    async with running_hub() as hub:
        await put(hub, "forge", preset="gitlab", secret="plain token")
        kept = await hub.client.put("/in/forge", json={"preset": "gitlab-signed"})
        given = await hub.client.put("/in/forge", json={"preset": "gitlab-signed", "secret": f"whsec_{'a' * 32}"})
        tested = await hub.client.post("/in/forge/test")
        unsigned = await send(hub, {}, name="forge")

    assert (kept.status_code, given.status_code, tested.status_code, unsigned.status_code) == (400, 200, 200, 403)
    assert [one["expires_at"] for one in given.json()["secrets"]] == [None]


async def test_a_token_is_in_no_answer(running_hub: RunHub) -> None:
    """It is the secret itself."""
    async with running_hub() as hub:
        await put(hub, "forge", preset="gitlab", secret="plain token")
        tested = await hub.client.post("/in/forge/test")

    assert ("plain token" in tested.text, tested.json()["headers"]["x-gitlab-token"]) == (False, "...")


async def test_a_secret_that_cannot_be_read_is_an_operating_error_and_a_new_one_mends_it(
    running_hub: RunHub,
) -> None:
    """Its key is lost: each POST ended with 500. The log has one line for a door, however often strangers ask."""
    async with running_hub() as hub:
        await put(hub)
        await hub.sql("UPDATE hookwire.inbound_secrets SET key_id = 'lost'")
        with structlog.testing.capture_logs() as logs:
            refused = [await send(hub, headers) for headers in (signed(), {})] + [await hub.client.get("/in/github")]
        kept = await hub.client.put("/in/github", json={"preset": "github"})
        mended = await put(hub, secret="another one")
        statuses = [(await send(hub, signed(secret=secret))).status_code for secret in (SECRET, "another one")]

    (line,) = [line for line in logs if line["event"] == "inbound_secret_unreadable"]
    problems = {(one.status_code, one.json()["type"].rpartition("/")[2]) for one in (*refused, kept)}
    assert problems == {(503, "secret-unreadable")}
    assert ("the key 'lost'" in line["error"], "HOOKWIRE_SECRET_KEYS" in line["hint"]) == (True, True)
    assert ([one["number"] for one in mended["secrets"]], statuses) == ([2], [403, 200])
