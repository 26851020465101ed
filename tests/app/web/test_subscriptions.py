"""/subscriptions: make, read, list, change, end; every bad input by name (B-26, B-49, B-50, EG-02, WH-06)."""

from __future__ import annotations

from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.publishing.test_ingest import kind

CALLBACK = "http://127.0.0.1:9000/hook?token=1"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def test_a_subscription_is_made_with_a_secret_that_is_shown_once(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        made = await hub.client.post("/subscriptions", json={"topic": "orders.*", "callback": CALLBACK})
        read = await hub.client.get(made.headers["location"])

        expected = made.json()
        assert expected.pop("secret").startswith("whsec_")
        assert (made.status_code, read.json()) == (201, expected | {"warnings": ["never_verified"]})
        assert (expected["topic"], expected["callback"], expected["state"]) == ("orders.*", CALLBACK, "active")


async def test_a_filter_is_kept_changed_ended_and_tried(shared_hub: RunHub) -> None:
    """WH-A05: the route that tries a filter and the fan-out use one function."""
    wanted = {"data": {"n": {"$gt": 1}}}
    async with shared_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, filter=wanted)
        path = f"/subscriptions/{made['id']}"
        bad = await hub.client.patch(path, json={"filter": {"data": {"n": {"$regex": "x"}}}})
        ended = await hub.client.patch(path, json={"filter": {}})
        event = (await hub.publish("a", b'{"n": 2}')).json()["id"]
        tried = await hub.client.post("/filters/test", json={"filter": wanted, "event_id": event})
        sample = await hub.client.post("/filters/test", json={"filter": wanted, "event": {"data": {"n": 1}}})

        assert (made["filter"], bad.status_code, ended.json()["filter"]) == (wanted, 422, None)
        assert (tried.json()["matches"], sample.json()["matches"]) == (True, False)


async def test_a_filter_that_is_too_expensive_for_an_event_is_refused_and_passes_in_no_replay(
    running_hub: RunHub,
) -> None:
    """GS-05: the cost is known before the filter runs, on each way to it."""
    wanted = {"data": {"n": {"$in": list(range(64))}}}
    async with running_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, filter=wanted)
        large, small = [
            (await hub.publish("a", b'{"n": [%s1]}' % (b"1," * count))).json()["id"] for count in (20_000, 10)
        ]
        tried = await hub.client.post("/filters/test", json={"filter": wanted, "event_id": large})
        replay = {"subscription_id": made["id"], "source": "events", "dry_run": True}
        counted = await hub.client.post("/replays", json=replay)

        assert kind(tried)[::2] == (422, "invalid-filter")
        assert (counted.json()["records"], counted.json()["newest"]) == (1, small), counted.text


@pytest.mark.parametrize("payload", [b"[" * 1000 + b"]" * 1000, b"[%b[]]" % (b"[]," * 70_000)], ids=["deep", "many"])
async def test_an_event_with_too_many_levels_or_values_cannot_be_shown(shared_hub: RunHub, payload: bytes) -> None:
    """B-49: publishing takes any bytes."""
    async with shared_hub() as hub:
        event = (await hub.publish("a", payload)).json()["id"]
        answer = await hub.client.post("/filters/test", json={"filter": {"key": "k"}, "event_id": event})

        assert kind(answer)[::2] == (400, "invalid-parameter")


async def test_a_sample_from_before_the_calendar_is_refused(shared_hub: RunHub) -> None:
    """B-49."""
    async with shared_hub() as hub:
        event = {"time": "0001-01-01T00:00:00+14:00"}
        answer = await hub.client.post("/filters/test", json={"filter": {"key": "k"}, "event": event})

        assert kind(answer)[::2] == (400, "invalid-parameter")


async def test_deliveries_are_signed_with_the_secret_that_was_given(shared_hub: RunHub, receiver: Receiver) -> None:
    """SE-01; verified by the library that receivers use."""
    async with shared_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback, secret=SECRET)
        await hub.publish("a", b'{"n": 1}')
        [delivered] = await receiver.wait_for(1)

        assert made["secret"] == SECRET
        assert Webhook(SECRET).verify(delivered.body, delivered.headers) == {"n": 1}


async def test_the_secret_is_sealed_in_the_database(running_hub: RunHub) -> None:
    """SE-03."""
    async with running_hub() as hub:
        await hub.subscribe("a", CALLBACK, secret=SECRET)

        [(sealed,)] = await hub.sql("SELECT sealed FROM hookwire.subscription_secrets")
        assert SECRET.encode() not in sealed


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"topic": ""}, (422, "invalid-pattern")),
        ({"topic": "a..b"}, (422, "invalid-pattern")),
        ({"topic": "ord*"}, (422, "invalid-pattern")),
        ({"topic": "a\r\nb"}, (422, "invalid-pattern")),
        ({"topic": ".".join("#*" * 20)}, (422, "invalid-pattern")),
        ({"topic": None}, (400, "invalid-parameter")),
        ({"topic": 1}, (400, "invalid-parameter")),
        ({"callback": "ftp://a.example/"}, (422, "invalid-callback")),
        ({"callback": "http://u:p@a.example/"}, (422, "invalid-callback")),
        ({"callback": "http://a.example/#f"}, (422, "invalid-callback")),
        ({"callback": "http://a.example/\r\nX: y"}, (422, "invalid-callback")),
        ({"callback": "http://a.example/" + "x" * 3000}, (422, "invalid-callback")),
        ({"callback": "//a.example/"}, (422, "invalid-callback")),
        ({"callback": "http://169.254.169.254/"}, (422, "callback-refused")),
        ({"callback": "http://[::ffff:169.254.169.254]/"}, (422, "callback-refused")),
        ({"callback": "http://2852039166/"}, (422, "invalid-callback")),
        ({"secret": "x"}, (400, "invalid-parameter")),
        ({"secret": "whsec_AAAA"}, (400, "invalid-parameter")),
        ({"state": "gone"}, (400, "invalid-parameter")),
        ({"retry_schedule_seconds": [-1]}, (400, "invalid-parameter")),
        ({"retry_schedule_seconds": [1] * 51}, (400, "invalid-parameter")),
        ({"timeout_seconds": 31}, (400, "invalid-parameter")),
        ({"retry_age_seconds_max": 0}, (400, "invalid-parameter")),
        ({"on_4xx": "stop"}, (400, "invalid-parameter")),
        ({"mode": "exactly_once"}, (400, "invalid-parameter")),
        ({"mode": "at_most_once", "ordered": True}, (400, "invalid-parameter")),
        ({"unknown": 1}, (400, "invalid-parameter")),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_bad_subscription_is_refused_by_name(
    kept_hub: RunningHub, changes: dict[str, Any], expected: tuple[int, str]
) -> None:
    answer = await kept_hub.client.post("/subscriptions", json={"topic": "a", "callback": CALLBACK, **changes})

    assert (kind(answer)[::2], await kept_hub.sql("SELECT id FROM hookwire.subscriptions")) == (expected, [])
    assert str(next(iter(changes.values()))) not in answer.text or len(str(next(iter(changes.values())))) < 3


async def test_a_refused_callback_says_which_setting_allows_it(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        answer = await hub.client.post("/subscriptions", json={"topic": "a", "callback": "http://10.1.2.3/hook"})

        problem = answer.json()
        assert problem["setting"] == ["HOOKWIRE_EGRESS_ALLOW_CIDRS", "HOOKWIRE_EGRESS_ALLOW_HOSTS"]
        assert "10.0.0.0/8; HOOKWIRE_EGRESS_ALLOW_CIDRS or HOOKWIRE_EGRESS_ALLOW_HOSTS" in problem["detail"]


async def test_a_network_that_the_operator_allowed_is_taken(running_hub: RunHub) -> None:
    async with running_hub(egress_allow_cidrs="10.1.0.0/16") as hub:
        answer = await hub.client.post("/subscriptions", json={"topic": "a", "callback": "http://10.1.2.3/hook"})

        assert answer.status_code == 201


async def test_production_reaches_no_loopback(running_hub: RunHub) -> None:
    async with running_hub(profile="production", access="proxy") as hub:
        answer = await hub.client.post("/subscriptions", json={"topic": "a", "callback": CALLBACK})

        assert kind(answer)[::2] == (422, "callback-refused")


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"", "application/json", (400, "missing-parameter")),
        (b"{", "application/json", (400, "malformed-json")),
        (b"[" * 50_000, "application/json", (400, "malformed-json")),
        (b'{"topic": "a", "topic": "b"}', "application/json", (400, "malformed-json")),
        (b'{"timeout_seconds": NaN}', "application/json", (400, "malformed-json")),
        (b'{"timeout_seconds": ' + b"1" * 5000 + b"}", "application/json", (400, "malformed-json")),
        (b'{"topic": "\\u0000"}', "application/json", (422, "malformed-json")),
        (b'{"topic": "\\ud800"}', "application/json", (422, "malformed-json")),
        (b"[]", "application/json", (400, "invalid-parameter")),
        ('{"topic": "a"}'.encode("utf-16"), "application/json; charset=utf-16", (415, "unsupported-media-type")),
        (b"{}", "application/json; charset=utf-7", (415, "unsupported-media-type")),
        (b"{}", "text/plain", (415, "unsupported-media-type")),
        (b"{}", "application/x-www-form-urlencoded", (415, "unsupported-media-type")),
        (b"{}", None, (415, "unsupported-media-type")),
    ],
    ids=range(14),
)
async def test_a_body_that_is_no_strict_json_is_refused(
    kept_hub: RunningHub, body: bytes, content_type: str | None, expected: tuple[int, str]
) -> None:
    """B-30..B-37: a 4xx of its own kind, never a 500."""
    headers = {"Content-Type": content_type} if content_type else {}
    answer = await kept_hub.client.post("/subscriptions", content=body, headers=headers)

    assert kind(answer) == (expected[0], "application/problem+json", expected[1])


async def test_the_list_is_paged_and_filtered(running_hub: RunHub) -> None:
    """EC-24: pages follow each other without gap or repeat, by link as by cursor."""
    async with running_hub() as hub:
        made = [(await hub.subscribe("a" if n % 2 else "b", CALLBACK))["id"] for n in range(7)]
        pages, path = [], "/subscriptions?limit=3"
        while path:
            answer = await hub.client.get(path)
            pages.append([item["id"] for item in answer.json()["items"]])
            path = answer.links.get("next", {}).get("url", "")
        only_a = (await hub.client.get("/subscriptions?topic=a&state=active")).json()["items"]

        assert pages == [made[:3], made[3:6], made[6:]]
        assert [item["id"] for item in only_a] == made[1::2]


@pytest.mark.parametrize(
    ("query", "slug"),
    [
        ("cursor=x", "invalid-cursor"),
        ("cursor=WyJhIl0", "invalid-cursor"),
        ("cursor=Wy0xXQ", "invalid-cursor"),
        ("cursor=" + "W" * 401, "invalid-parameter"),
        ("cursor=" + "W" * 400, "invalid-cursor"),
        ("limit=0", "invalid-parameter"),
        ("limit=501", "invalid-parameter"),
        ("limit=" + "9" * 5000, "invalid-parameter"),
        ("state=x", "invalid-parameter"),
        ("topic=%00", "invalid-parameter"),
    ],
)
async def test_a_bad_page_is_refused(kept_hub: RunningHub, query: str, slug: str) -> None:
    """B-49, EC-H08."""
    answer = await kept_hub.client.get(f"/subscriptions?{query}")

    assert kind(answer)[::2] == (400, slug)


async def test_filters_are_data_and_never_sql(shared_hub: RunHub) -> None:
    """B-49."""
    async with shared_hub() as hub:
        await hub.subscribe("a", CALLBACK)
        answer = await hub.client.get("/subscriptions", params={"topic": "' OR 1=1 --"})

        assert (answer.status_code, answer.json()["items"]) == (200, [])


async def test_a_change_touches_only_what_it_names(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, timeout_seconds=5)
        del made["secret"]
        changed = (
            await hub.client.patch(f"/subscriptions/{made['id']}", json={"topic": "b.#", "ordered": True})
        ).json()

        assert changed.pop("updated_at") >= made.pop("updated_at")
        assert changed == {**made, "topic": "b.#", "ordered": True, "mode": "ordered"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, ("at_least_once", False, "skip")),
        ({"ordered": True}, ("ordered", True, "park")),
        ({"mode": "ordered", "on_exhausted": "skip"}, ("ordered", True, "skip")),
        ({"mode": "at_most_once"}, ("at_most_once", False, "skip")),
    ],
    ids=str,
)
async def test_a_mode_is_chosen_when_a_subscription_is_made_or_changed(
    shared_hub: RunHub, body: dict[str, Any], expected: tuple[str, bool, str]
) -> None:
    """WH-O01, WH-O03."""
    async with shared_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, **body)
        other = await hub.subscribe("a", CALLBACK)
        changed = (await hub.client.patch(f"/subscriptions/{other['id']}", json=body)).json()

        assert [(one["mode"], one["ordered"]) for one in (made, changed)] == [expected[:2]] * 2
        assert (made["on_exhausted"], changed["on_exhausted"]) == (expected[2], body.get("on_exhausted", "skip"))


async def test_an_option_that_is_set_to_null_is_as_usual_again(shared_hub: RunHub) -> None:
    """WH-R01, WH-R03, WH-R09."""
    options = {"retry_schedule_seconds": [1], "retry_age_seconds_max": 60, "on_4xx": "give_up", "on_410": "as_4xx"}
    async with shared_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, timeout_seconds=5, **options)
        path = f"/subscriptions/{made['id']}"
        changed = (await hub.client.patch(path, json=dict.fromkeys(options))).json()

        assert {name: made[name] for name in options} == options
        assert [changed[name] for name in (*options, "timeout_seconds")] == [None, None, "retry", "end", 5]


@pytest.mark.parametrize(("mode", "usual"), [("ordered", "park"), ("at_least_once", "skip")])
async def test_what_follows_an_exhausted_head_is_as_usual_again(shared_hub: RunHub, mode: str, usual: str) -> None:
    """WH-O03: of an ordered one the key waits, however that came to be the default."""
    async with shared_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, mode=mode, on_exhausted="skip")
        changed = await hub.client.patch(f"/subscriptions/{made['id']}", json={"on_exhausted": None})

        assert changed.json()["on_exhausted"] == usual


async def test_who_is_active_again_has_a_closed_breaker(running_hub: RunHub) -> None:
    """WH-I07, WH-I09: else the first failure would disable it again, for what it failed at before."""
    async with running_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, state="disabled")
        await hub.sql(
            "INSERT INTO hookwire.delivery_gates (subscription_id, trips, open_until, failing_since)"
            " SELECT id, 5, now() + interval '600 s', now() - interval '9 days' FROM hookwire.subscriptions"
        )
        changed = await hub.client.patch(f"/subscriptions/{made['id']}", json={"state": "active"})

        assert (changed.json()["state"], changed.json()["breaker_open_until"]) == ("active", None)
        assert await hub.sql("SELECT 1 FROM hookwire.delivery_gates") == []


async def test_a_disabled_subscription_gets_nothing_until_it_is_active_again(
    shared_hub: RunHub, receiver: Receiver
) -> None:
    async with shared_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback, state="disabled")
        missed = (await hub.publish("a", b"1")).json()["id"]
        await hub.until(f"/events/{missed}", lambda event: event["sinks"][0]["state"] == "sent")
        await hub.client.patch(f"/subscriptions/{made['id']}", json={"state": "active"})
        await hub.publish("a", b"2")

        assert [delivered.body for delivered in await receiver.wait_for(1)] == [b"2"]


async def test_an_ended_subscription_is_gone_and_what_it_was_owed_has_ended(
    shared_hub: RunHub, receiver: Receiver
) -> None:
    """WH-06, WH-R09."""
    receiver.status = 503
    async with shared_hub(ALL_ROLES) as hub:
        made = await hub.subscribe("a", receiver.callback)
        await hub.publish("a")
        await receiver.wait_for(1)
        await hub.until("/deliveries", lambda page: page["items"][0]["state"] == "retrying")
        ended = await hub.client.delete(f"/subscriptions/{made['id']}")
        again = [
            await hub.client.request(method, f"/subscriptions/{made['id']}", json={} if method == "PATCH" else None)
            for method in ("GET", "PATCH", "DELETE")
        ]

        [dead] = (await hub.client.get("/deliveries?state=ended")).json()["items"]
        assert (ended.status_code, [answer.status_code for answer in again]) == (204, [404, 404, 404])
        assert (dead["subscription_id"], dead["detail"]) == (made["id"], "gone: subscription deleted")


async def test_a_change_or_an_end_may_be_bound_to_a_version(shared_hub: RunHub) -> None:
    """ETag and If-Match: what somebody else has changed meanwhile is not overwritten (WH-A11)."""
    async with shared_hub() as hub:
        path = f"/subscriptions/{(await hub.subscribe('a', CALLBACK))['id']}"
        old = (await hub.client.get(path)).headers["etag"]
        changed = await hub.client.patch(path, json={"topic": "b"}, headers={"If-Match": old})
        new = changed.headers["etag"]
        late = [
            await hub.client.patch(path, json={"topic": "c"}, headers={"If-Match": old}),
            await hub.client.delete(path, headers={"If-Match": old}),
            await hub.client.patch(path, json={"topic": "c"}, headers={"If-Match": "nonsense"}),
        ]
        ended = await hub.client.delete(path, headers={"If-Match": new})

        assert (changed.status_code, new != old, ended.status_code) == (200, True, 204)
        assert [kind(answer)[::2] for answer in late] == [(412, "precondition-failed")] * 3


@pytest.mark.parametrize("identity", ["%00", "%ff", "sub_%0d%0aX:", "x" * 100, "' OR 1=1", "..%2f..", "sub_none"])
async def test_a_strange_id_is_not_found(kept_hub: RunningHub, identity: str) -> None:
    """B-47, B-49: as a missing one is."""
    answers = [await kept_hub.client.request(m, f"/subscriptions/{identity}") for m in ("GET", "DELETE")]

    assert [kind(answer)[::2] for answer in answers] == [(404, "not-found")] * 2


async def test_only_an_active_websub_subscription_can_be_denied(shared_hub: RunHub) -> None:
    """WS-38: others have ends of their own."""
    async with shared_hub() as hub:
        made = await hub.subscribe("a", CALLBACK)
        answer = await hub.client.post(f"/subscriptions/{made['id']}/denial", json={"reason": "spam"})
        unknown = await hub.client.post("/subscriptions/sub_0/denial", json={})

        assert kind(answer) == kind(unknown) == (404, "application/problem+json", "not-found")


async def test_a_denied_websub_subscription_says_so(shared_hub: RunHub) -> None:
    """WS-38."""
    async with shared_hub() as hub:
        await hub.sql(
            "INSERT INTO hookwire.subscriptions (public_id, tenant, protocol, topic, topic_url, callback,"
            " state, identity)"
            " VALUES ('sub_w', 'default', 'websub', 'a', 'http://h/topics/a', $1, 'active', sha256('x'))",
            CALLBACK,
        )
        answer = await hub.client.post("/subscriptions/sub_w/denial", json={"reason": "spam"})
        after = (await hub.client.get("/subscriptions/sub_w")).json()

        assert (answer.status_code, after["state"], after["state_reason"]) == (204, "denied", "spam")


@pytest.mark.parametrize("fields", [{}, {"batch_max": None}, {"batch_max": 0}, {"batch_max": 1001}], ids=str)
async def test_who_wants_batches_names_how_many_events_at_most(kept_hub: RunningHub, fields: dict[str, Any]) -> None:
    """WH-C05."""
    body = {"topic": "a", "callback": "http://127.0.0.1:9000/", "format": "batch", **fields}
    refused = await kept_hub.client.post("/subscriptions", json=body)

    assert (kind(refused)[0], await kept_hub.sql("SELECT 1 FROM hookwire.subscriptions")) == (400, [])


async def test_a_change_to_batches_or_of_their_size_is_checked_as_a_whole(shared_hub: RunHub) -> None:
    """WH-C05."""
    async with shared_hub() as hub:
        made = await hub.subscribe("a", "http://127.0.0.1:9000/")
        path = f"/subscriptions/{made['id']}"
        too_early = await hub.client.patch(path, json={"format": "batch"})
        both = await hub.client.patch(path, json={"format": "batch", "batch_max": 50})
        unset = await hub.client.patch(path, json={"batch_max": None})
        back = await hub.client.patch(path, json={"format": None, "batch_max": None})

        assert [one.status_code for one in (too_early, both, unset, back)] == [400, 200, 400, 200]
        assert (both.json()["batch_max"], back.json()["format"]) == (50, "as_published")


async def test_a_template_is_for_a_chat_and_names_what_there_is(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        body = {"topic": "a", "callback": "http://127.0.0.1:9000/", "format": "slack", "template": "{topic}: {data.x}"}
        made = await hub.client.post("/subscriptions", json=body)
        bad = [await hub.client.post("/subscriptions", json={**body, "template": "{nobody}"})]
        bad += [await hub.client.post("/subscriptions", json={**body, "format": "raw"})]
        path = f"/subscriptions/{made.json()['id']}"
        bad += [await hub.client.patch(path, json={"format": "binary"})]
        changed = await hub.client.patch(path, json={"format": "mattermost"})

        assert (made.status_code, made.json()["template"]) == (201, "{topic}: {data.x}")
        assert [kind(one)[::2] for one in bad] == [(400, "invalid-parameter")] * 3
        assert (changed.status_code, changed.json()["format"]) == (200, "mattermost")


async def test_a_subscription_has_a_name_a_description_and_metadata(shared_hub: RunHub) -> None:
    """FT-13: what a change leaves out stays, null takes it away."""
    named = {"name": "warehouse", "description": "Books what is sold.", "metadata": {"owner": "team-orders"}}
    async with shared_hub() as hub:
        made = await hub.subscribe("a", CALLBACK, **named)
        path = f"/subscriptions/{made['id']}"
        changed = (await hub.client.patch(path, json={"name": None, "metadata": {"owner": "b"}})).json()
        refused = await hub.client.patch(path, json={"metadata": {str(n): "x" for n in range(21)}})

        assert {key: made[key] for key in named} == named
        assert {key: changed[key] for key in named} == {**named, "name": None, "metadata": {"owner": "b"}}
        assert refused.status_code == 400
