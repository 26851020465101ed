"""The gate: which key may do what, on every route; revoked within seconds; no secret anywhere.

SE-04..SE-08, AB-04, WH-T08.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from app.log import configure_logging
from app.web.authentication import FRESH_SECONDS, Keyring
from app.web.problem import Problem
from db.pool import PoolOptions, open_database
from hub.keys import SCOPES, Grant, Keys, NewKey
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.waiting import until

CALLBACK = "http://127.0.0.1:9000/hook"


@asynccontextmanager
async def keys_of(hub: RunningHub) -> AsyncIterator[Keys]:
    database = await open_database(PoolOptions(hub.database_url, connections_min=1, connections_max=2))
    try:
        yield Keys(database)
    finally:
        await database.aclose()


async def bearer(
    hub: RunningHub, *scopes: Any, topics: list[str] | None = None, lifetime: float | None = None, name: str = "test"
) -> str:
    async with keys_of(hub) as keys:
        return (await keys.create(NewKey(name, scopes, topics, lifetime)))[1]


async def refused(hub: RunningHub, key: str) -> None:
    """Return once the key is refused; a deadline fails the test."""

    async def is_refused() -> bool:
        return (await hub.client.get("/topics", headers=authorized(key))).status_code == 401

    await until(is_refused)


def authorized(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


NEEDS = [
    ("POST", "/topics/a/events", "publish"),
    ("GET", "/subscriptions", "read"),
    ("GET", "/subscriptions", "subscribe"),
    ("POST", "/subscriptions", "subscribe"),
    ("GET", "/metrics", "read"),
    ("POST", "/deliveries/x/retry", "operate"),
    ("PUT", "/topics/a/settings", "admin"),
    ("POST", "/keys", "admin"),
    ("POST", "/rabbithub/endpoint/x/e", "publish"),
    ("POST", "/queues/q/messages", "enqueue"),
    ("POST", "/queues/q/receive", "work"),
    ("POST", "/queues/q/pause", "operate"),
    ("POST", "/whatever/comes/later", "admin"),
]


@pytest.mark.parametrize(("docs", "without_key"), [(False, 401), (True, 200)])
async def test_the_contract_needs_a_key_where_the_docs_page_is_off(
    running_hub: RunHub, docs: bool, without_key: int
) -> None:
    """GS-07: any key will do."""
    async with running_hub(access="keys", docs=docs) as hub:
        key = await bearer(hub, "publish", topics=["a.#"])
        answers = [await hub.client.get("/openapi.json", headers=headers) for headers in ({}, authorized(key))]

        assert [answer.status_code for answer in answers] == [without_key, 200]


async def test_every_route_needs_its_scope(running_hub: RunHub) -> None:
    """SE-04, B-48, WS-17, WS-66, RH-51, RH-52; the table of all routes is test_scopes.py's.

    Without a key 401; with any other scope 403; with the scope or admin the route decides."""
    async with running_hub(access="keys", hub_access="keys") as hub:
        keys = {scope: await bearer(hub, scope) for scope in SCOPES}
        enough = {(m, p): {s for x, y, s in NEEDS if (x, y) == (m, p)} | {"admin"} for m, p, _ in NEEDS}

        async def status(method: str, path: str, key: str | None) -> int:
            headers = authorized(key) if key else {}
            return (await hub.client.request(method, path, headers=headers)).status_code

        refused = {
            (m, p): {s for s in SCOPES if await status(m, p, keys[s]) == 403} | {await status(m, p, None)}
            for m, p in enough
        }

        assert refused == {route: {s for s in SCOPES if s not in fit} | {401} for route, fit in enough.items()}


REACH: list[tuple[str, str, Any, int]] = [
    ("POST", "/topics/orders.new/events", None, 202),
    ("POST", "/topics/users.new/events", None, 403),
    ("POST", "/subscriptions", {"topic": "orders.*", "callback": CALLBACK}, 201),
    ("POST", "/subscriptions", {"topic": "#", "callback": CALLBACK}, 403),
    ("POST", "/subscriptions", {"topic": "users.new", "callback": CALLBACK}, 403),
    ("GET", "/subscriptions", None, 200),
    ("GET", "/subscriptions?topic=orders.*", None, 200),
    ("GET", "/subscriptions?topic=users.new", None, 403),
    ("GET", "/subscriptions/{subscription}", None, 404),
    ("PATCH", "/subscriptions/{subscription}", {"state": "disabled"}, 404),
    ("DELETE", "/subscriptions/{subscription}", None, 404),
    ("GET", "/deliveries?subscription_id={subscription}", None, 404),
    ("GET", "/deliveries", None, 200),
    ("GET", "/deliveries/dlv_1_1/attempts", None, 404),
    ("GET", "/events/{event}", None, 404),
    ("GET", "/topics", None, 200),
    ("GET", "/metrics", None, 403),
    ("GET", "/topics/users.new/settings", None, 403),
]


async def test_a_key_for_some_topics_reaches_no_others(shared_hub: RunHub) -> None:
    """SE-04, B-47, TN-05: what belongs to other topics is not found, or refused where the request names it."""
    async with shared_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        key = authorized(await bearer(hub, "publish", "subscribe", "read", topics=["orders.#"]))
        made = {"topic": "users.new", "callback": CALLBACK}
        subscription = (await hub.client.post("/subscriptions", json=made, headers=admin)).json()["id"]
        event = (await hub.client.post("/topics/users.new/events", content=b"", headers=admin)).json()["id"]

        async def status(method: str, path: str, body: Any) -> int:
            where = path.format(subscription=subscription, event=event)
            return (await hub.client.request(method, where, json=body, headers=key)).status_code

        found = [(method, path, body, await status(method, path, body)) for method, path, body, _ in REACH]
        assert found == REACH


async def test_a_key_for_some_topics_lists_these_and_no_others(running_hub: RunHub) -> None:
    """GU-08: a customer's key got 403 for its own lists, page by page."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        key = authorized(await bearer(hub, "subscribe", "read", topics=["orders.#"]))
        for topic in ("orders.new", "users.new", "orders.old", "#"):
            await hub.client.post("/subscriptions", json={"topic": topic, "callback": CALLBACK}, headers=admin)
            await hub.client.post(f"/topics/{topic.replace('#', 'other')}/events", content=b"", headers=admin)

        async def listed(path: str) -> list[str]:
            found, cursor = [], ""
            while cursor is not None:
                page = (await hub.client.get(f"{path}?limit=1{cursor}", headers=key)).json()
                found += [item["topic"] for item in page["items"]]
                cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
            return found

        assert (await listed("/subscriptions"), await listed("/topics")) == (
            ["orders.new", "orders.old"], ["orders.new", "orders.old"],
        )  # fmt: skip


async def test_a_key_for_some_kinds_lists_no_callback_of_another_kind_or_service(running_hub: RunHub) -> None:
    """EY-03: what is a 404 by its id is not in the list either."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        for body in ({"kind": "mail.send"}, {"kind": "other"}, {"service": "other"}, {"topic": "t"}):
            made = await hub.client.post("/subscriptions", json={**body, "callback": CALLBACK}, headers=admin)
            assert made.status_code == 201, made.text
        asked = {"name": "ada", "scopes": ["read"], "kinds": ["mail.*"], "services": ["mail"]}
        ada = authorized((await hub.client.post("/keys", json=asked, headers=admin)).json()["key"])
        listed = (await hub.client.get("/subscriptions", headers=ada)).json()["items"]

    assert [(found["kind"], found["service"], found["topic"]) for found in listed] == [
        ("mail.send", None, listed[0]["topic"]), (None, None, "t"),
    ]  # fmt: skip


async def test_a_key_for_some_topics_sees_no_callback_of_others(shared_hub: RunHub, receiver: Receiver) -> None:
    """FS-10, SE-09: a callback may be a capability, and an attempt shows its receiver's answer."""
    async with shared_hub(ALL_ROLES, access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        key = authorized(await bearer(hub, "read", "publish", topics=["a.#"]))
        subscriptions = {
            topic: (
                await hub.client.post(
                    "/subscriptions",
                    json={"topic": topic, "callback": f"{receiver.callback}?of={len(topic)}"},
                    headers=admin,
                )
            ).json()["id"]
            for topic in ("a.one", "#")
        }
        sent = await hub.client.post("/topics/a.one/events?matched=true", content=b"{}", headers=key)
        event = f"/events/{sent.json()['id']}"
        await receiver.wait_for(2)
        hub.client.headers.update(admin)
        everything = await hub.until(event, lambda found: found["summary"] == "2 delivered.")
        own = (await hub.client.get(event, headers=key)).json()
        ids = {delivery["subscription_id"]: delivery["id"] for delivery in everything["deliveries"]}

        async def attempts(topic: str) -> int:
            path = f"/deliveries/{ids[subscriptions[topic]]}/attempts"
            return (await hub.client.get(path, headers=key)).status_code

        shown = [(one["subscription_id"], one["callback"]) for one in own["deliveries"]]
        assert (len(ids), shown) == (2, [(subscriptions["a.one"], f"{receiver.callback}?of=5")])
        assert sent.json()["matched"] == [subscriptions["a.one"]]
        assert (await attempts("a.one"), await attempts("#"), own["summary"]) == (200, 404, "2 delivered.")


async def test_what_is_open_stays_open(shared_hub: RunHub) -> None:
    """Health for machines, problems for people, WebSub for subscribers whom nobody knows beforehand."""
    async with shared_hub(access="keys") as hub:
        form = {"hub.mode": "subscribe", "hub.topic": f"{hub.url}/topics/a", "hub.callback": CALLBACK}
        answers = [
            (await hub.client.get(path)).status_code for path in ("/healthz", "/readyz", "/problems", "/topics/a")
        ]

        assert (answers, (await hub.client.post("/hub", data=form)).status_code) == ([200, 200, 200, 404], 202)


async def test_the_hubs_own_topics_are_not_open(shared_hub: RunHub) -> None:
    """SE-04: what operators hear names callbacks; strangers neither read it nor have it delivered."""
    async with shared_hub(access="keys") as hub:
        own = "/topics/hookwire.operator"
        form = {"hub.mode": "subscribe", "hub.topic": f"{hub.url}{own}", "hub.callback": CALLBACK}
        found = [
            (await hub.client.get(own)).status_code,
            (await hub.client.head("/topics/%68ookwire.operator")).status_code,
            (await hub.client.post("/hub", data=form)).status_code,
        ]

        assert found == [401, 401, 400]


async def test_a_slash_within_a_name_of_rabbithubs_opens_nothing(shared_hub: RunHub) -> None:
    """RH-01, RH-17, SE-04: a virtual host of that name is none of the words that decide what a key is needed for."""
    async with shared_hub(access="keys") as hub:
        path = "/rabbithub/%2Fendpoint%2F/subscriptions"
        publisher = authorized(await bearer(hub, "publish"))
        found = [
            (await hub.client.get(f"{path}?hub.mode=subscribe&hub.verify_token=x")).status_code,
            (await hub.client.post("/rabbithub//endpoint//subscriptions", headers=publisher)).status_code,
            (await hub.client.post(path, headers=publisher, json={"subscriptions": []})).status_code,
            (await hub.client.post("/rabbithub/%2Fsubscribe%2F/subscriptions", headers=publisher)).status_code,
        ]

        assert found == [401, 404, 403, 403]


BAD_HEADERS = [
    b"",
    b"Bearer",
    b"Bearer hwk_000000000000_0000000000000000000000000000000000000000",
    b"Bearer \xff\xfe",
    b"Basic \xe9",
    b"Basic OmFiYw",
    b"Digest x",
]


async def test_a_bad_key_is_unauthorized(running_hub: RunHub) -> None:
    """B-46, B-48."""
    async with running_hub(access="keys") as hub:
        answers = [await hub.client.get("/topics", headers=[(b"Authorization", header)]) for header in BAD_HEADERS]

        told = {
            (answer.status_code, answer.json()["type"], answer.headers["www-authenticate"][:6]) for answer in answers
        }
        assert told == {(401, f"{hub.url}/problems/unauthorized", "Bearer")}


async def test_a_key_in_the_query_or_sent_twice_is_not_read(shared_hub: RunHub) -> None:
    """SE-05, B-46."""
    async with shared_hub(access="keys") as hub:
        key = await bearer(hub, "admin")
        twice = [("Authorization", f"Bearer {key}")] * 2

        answers = [
            await hub.client.get(f"/topics?key={key}&token={key}&access_token={key}"),
            await hub.client.get("/topics", headers=twice),
        ]
        assert [answer.status_code for answer in answers] == [401, 401]


async def test_a_browser_may_look_with_the_key_as_password_and_change_nothing(shared_hub: RunHub) -> None:
    async with shared_hub(access="keys") as hub:
        login = httpx.BasicAuth("me", await bearer(hub, "admin"))
        page = await hub.client.get("/console", auth=login)
        change = await hub.client.post("/topics/a/events", auth=login)

        assert (page.status_code, change.status_code) == (200, 401)


async def test_an_expired_key_is_refused(shared_hub: RunHub) -> None:
    """B-48. It may be remembered, but never beyond its own end."""
    async with shared_hub(access="keys") as hub:
        key = await bearer(hub, "read", lifetime=2.0)

        await refused(hub, key)


class _Fake:
    """Keys without a database: counts the questions."""

    def __init__(self, grant: Grant | None) -> None:
        self.grant = grant
        self.questions = self.at_once = self.at_once_max = 0

    async def find(self, _text: str) -> Grant | None:
        self.questions += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return self.grant


_HEADER = b"Bearer hwk_" + b"0" * 12 + b"_" + b"0" * 40


async def test_a_key_is_asked_for_once_by_all_who_come_at_once_and_again_when_it_is_old() -> None:
    """SE-04: five seconds at most, the question's own time included."""
    keys = _Fake(Grant("key_0", frozenset({"read"}), None, None))
    ring = Keyring(keys, keys)  # type: ignore[arg-type]

    await asyncio.gather(*(ring.known(_HEADER, "a", basic=True) for _ in range(5)))
    once = keys.questions
    ring._known[_HEADER].fresh_until -= FRESH_SECONDS
    keys.grant = None
    with pytest.raises(Problem, match="unauthorized"):
        await ring.known(_HEADER, "a", basic=True)

    assert (once, keys.questions, FRESH_SECONDS < 5) == (1, 2, True)


async def test_an_address_that_guesses_is_slowed_down_and_others_are_not() -> None:
    """SE-06: by address and by the visible part of the key that is guessed."""
    ring = Keyring(_Fake(None), _Fake(None))  # type: ignore[arg-type]

    async def guess(address: str, visible: int, secret: int) -> str:
        try:
            await ring.known(b"Bearer hwk_%012d_%040d" % (visible, secret), address, basic=True)
        except Problem as problem:
            return problem.slug
        return "let in"

    answers = [await guess("guesser", 1, secret) for secret in range(50)]
    others = [await guess("other", 1, 1), await guess("guesser", 2, 1)]

    assert (set(answers), answers[:10]) == ({"unauthorized", "too-many-requests"}, ["unauthorized"] * 10)
    assert others == ["unauthorized", "unauthorized"]


async def test_failed_logins_keep_no_valid_key_out(shared_hub: RunHub) -> None:
    """FS-08: many share an address behind NAT or a proxy; a key that this process has not seen is let in."""
    async with shared_hub(access="keys") as hub:
        known, text = await bearer(hub, "read"), await bearer(hub, "read")
        await hub.client.get("/topics", headers=authorized(known))

        async def status(key: str) -> int:
            return (await hub.client.get("/topics", headers=authorized(key))).status_code

        async def slowed_down(key: Callable[[int], str]) -> set[int]:
            """A slow machine is allowed more guesses."""
            statuses: list[int] = []

            async def guess() -> None:
                while 429 not in statuses:
                    statuses.append(await status(key(len(statuses))))

            await asyncio.gather(*(guess() for _ in range(8)))
            return set(statuses)

        unknown = {await status(f"hwk_{number:012x}_{number:040x}") for number in range(20)}
        malformed = await slowed_down(lambda number: f"none{number}")
        guessed = await slowed_down(lambda number: f"{text[:16]}_{number:040x}")

        assert (unknown, malformed, guessed) == ({401}, {401, 429}, {401, 429})
        assert [await status(text), await status(known)] == [200, 200]


async def test_strangers_take_few_of_the_databases_connections() -> None:
    """FS-08: however many keys come at once, few are asked for at a time."""
    keys = _Fake(None)
    ring = Keyring(keys, keys)  # type: ignore[arg-type]
    headers = [b"Bearer hwk_%012d_%040d" % (number, number) for number in range(100)]

    found = await asyncio.gather(*(ring.known(one, "a", basic=True) for one in headers), return_exceptions=True)

    assert ({type(one) for one in found}, keys.questions, keys.at_once_max) == ({Problem}, 100, 4)


async def test_a_browser_is_told_of_each_way_to_log_in_by_itself(shared_hub: RunHub) -> None:
    """FT-02: two fields, because Chromium reads the first scheme of each; and a page where HTML is accepted."""
    async with shared_hub(access="keys") as hub:
        page = await hub.client.get("/events/x", headers={"Accept": "text/html,*/*;q=0.8"})
        program = await hub.client.get("/events/x")
        form = await hub.client.post("/topics/a/events", headers={"Accept": "text/html"})

        schemes = [value.partition(" ")[0] for value in page.headers.get_list("www-authenticate")]
        types = [answer.headers["content-type"].partition(";")[0] for answer in (page, program, form)]
        assert (schemes, types) == (["Bearer", "Basic"], ["text/html", *["application/problem+json"] * 2])
        assert [answer.status_code for answer in (page, program, form)] == [401, 401, 401]
        assert 'href="../problems/unauthorized"' in page.text


async def test_keys_are_made_listed_and_revoked_over_http(shared_hub: RunHub) -> None:
    """SE-04: shown once, stored as a digest; a revoked key ends everywhere, here in a second hub on the database."""
    async with shared_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        asked = {"name": "shop", "scopes": ["read"], "topics": None, "lifetime_seconds": 3600}
        made = (await hub.client.post("/keys", json=asked, headers=admin)).json()
        listed = (await hub.client.get("/keys", headers=admin)).json()["items"][-1]
        key = made.pop("key")
        before = (await hub.client.get("/topics", headers=authorized(key))).status_code
        revoked = await hub.client.delete(f"/keys/{made['id']}", headers=admin)
        await refused(hub, key)

        assert (listed, before, revoked.status_code) == (made, 200, 204)
        assert key.startswith(f"hwk_{made['id'].removeprefix('key_')}_")


async def test_a_key_revoked_by_one_process_is_refused_by_another(shared_hub: RunHub) -> None:
    """SE-04: the command writes to the database; no process is told, all ask again."""
    async with shared_hub(access="keys") as hub:
        key = await bearer(hub, "read")
        before = (await hub.client.get("/topics", headers=authorized(key))).status_code
        async with keys_of(hub) as keys:
            await keys.revoke(f"key_{key.split('_')[1]}")
        await refused(hub, key)

        assert before == 200


CANARY = "whsec_" + "Q0FOQVJZ" * 5
SECRET_PATH = "query-canary-93b1"


async def test_no_secret_is_found_anywhere(
    running_hub: RunHub, receiver: Receiver, capfd: pytest.CaptureFixture[str]
) -> None:
    """SE-07, SE-08: marked secrets through everything that writes or answers; then everything is searched."""
    configure_logging("json", "debug")
    async with running_hub(ALL_ROLES, access="keys", log_level="debug") as hub:
        key = await bearer(hub, "admin")
        admin = authorized(key)
        callback = f"{receiver.callback}?token={SECRET_PATH}"
        asked = {"topic": "a", "callback": callback, "secret": CANARY}
        await hub.client.post("/subscriptions", json=asked, headers=admin)
        await hub.client.post("/subscriptions", json={**asked, "callback": key}, headers=admin)
        receiver.status = 500
        event = (await hub.client.post("/topics/a/events", content=b"{}", headers=admin)).json()["id"]
        await receiver.wait_for(1)
        logging.getLogger("canary").error("went wrong with %s and %s at %s", key, CANARY, callback)
        paths = (
            "/",
            "/metrics",
            "/topics",
            f"/events/{event}",
            "/keys",
            "/subscriptions",
            "/nothing",
            "/deliveries",
        )
        pages = [(await hub.client.get(path, headers=admin)).text for path in paths]
        pages += [(await hub.client.get("/topics", headers={"Authorization": f"Bearer {key}x"})).text]
        dump = await hub.sql("SELECT k::text FROM hookwire.api_keys k")
        dump += await hub.sql("SELECT encode(sealed, 'escape') FROM hookwire.subscription_secrets")

    captured = capfd.readouterr()
    secret = key.rpartition("_")[2]
    found = {
        (name, place)
        for name, needle in {"key": secret, "signing": CANARY.removeprefix("whsec_")}.items()
        for place, text in {"logs": captured.err + captured.out, "pages": "".join(pages), "database": str(dump)}.items()
        if needle in text
    }
    assert (found, "went wrong" in captured.err) == (set(), True)
    assert (SECRET_PATH in captured.err, SECRET_PATH in pages[0]) == (False, False)
