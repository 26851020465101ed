"""The scenario list of RabbitHub's own regression scripts, from outside, over HTTP, each in one go."""

from __future__ import annotations

import base64
import secrets
from typing import Any

import httpx
import pytest

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.test_authentication import authorized, bearer
from tests.app.web.test_rabbithub import Q, X, exchange, form, statuses
from tests.hub.callback import Callbacks, answers, serve_callbacks

SUBSCRIPTIONS = "/rabbithub/subscriptions"
CREDENTIALS = base64.b64encode(b"user:pass:word").decode()
CONTACT = {
    "app_name": "shop", "contact_name": "A. B.", "phone": "+1 555", "email": "a@b.example", "description": "orders",
}  # fmt: skip


async def subscribe(hub: RunningHub, where: str, callbacks: Callbacks, path: str, **more: str) -> int:
    answer = await hub.client.post(f"/rabbithub/subscribe/{where}", data=form(callbacks, path=path, **more))
    return answer.status_code


async def listed(hub: RunningHub) -> dict[str, dict[str, Any]]:
    """Subscriptions by the path of their callback."""
    found = (await hub.client.get(SUBSCRIPTIONS)).json()["subscriptions"]
    return {f"/{one['callback'].rpartition('/')[2]}": one for one in found}


async def token_of(hub: RunningHub, place: str, use: str) -> str:
    asked = {"hub.mode": "generate_token", "hub.intended_use": use}
    answer = await hub.client.get(f"/rabbithub/endpoint/{place}", params=asked)
    assert answer.status_code == 200, answer.text
    return str(httpx.QueryParams(answer.text)["hub.verify_token"])


@pytest.mark.parametrize("where", ["q/q", "x/e"])
async def test_subscribing_takes_what_the_scripts_give(running_hub: RunHub, where: str) -> None:
    """RH-19..RH-21, RH-33..RH-36: least, all, credentials, contacts, HA modes, lease, pace; form, JSON."""
    async with running_hub() as hub, serve_callbacks() as callbacks:
        made = await statuses(hub.client.put(f"{Q}/q"), hub.client.put(f"{X}/e?amqp.exchange_type=topic"))
        everything = {"lease_seconds": "3600", "max_tps": "5", "ha_mode": "1", "basic_auth": CREDENTIALS, **CONTACT}
        wishes: dict[str, dict[str, str]] = {
            "/least": {}, "/auth": {"basic_auth": CREDENTIALS}, "/app": {"app_name": "shop"}, "/contact": CONTACT,
            "/ha1": {"ha_mode": "1"}, "/all": {"ha_mode": "all"}, "/lease": {"lease_seconds": "3600"},
            "/tps": {"max_tps": "5"}, "/everything": everything,
        }  # fmt: skip
        by_form = {path: await subscribe(hub, where, callbacks, path, **more) for path, more in wishes.items()}
        for path, more in (("/json", {}), ("/jsonfull", {**everything, "contact": CONTACT})):
            wish = {"callback": callbacks.url(path), "topic": "#", "mode": "subscribe", "verify": "sync"}
            own = {name: value for name, value in more.items() if name not in CONTACT}
            answer = await hub.client.post(f"/rabbithub/subscribe/{where}", json={"hub": {**wish, **own}})
            by_form[path] = answer.status_code
        found = await listed(hub)

        assert made == [201, 201]
        assert by_form == {path: 201 if "ha_mode" in wishes.get(path, everything) else 204 for path in found} | {
            "/json": 204
        }
        full = {"ha_mode": "1", "max_tps": 5, "lease_seconds": 3600, "outbound_auth": {"auth_type": "basic_auth"}}
        assert {name: found["/everything"][name] for name in full} == full
        assert {name: found["/jsonfull"][name] for name in full} == full
        assert (found["/everything"]["contact"], found["/jsonfull"]["contact"]) == (CONTACT, CONTACT)
        assert found["/app"]["contact"] == {"app_name": "shop"}
        asked = {head.split(" ")[1].partition("?")[0]: head for head in callbacks.heads}
        assert f"authorization: Basic {CREDENTIALS}\r\n".lower() in asked["/auth"].lower()
        assert "authorization" not in asked["/least"].lower()


async def test_credentials_go_with_verifications_and_deliveries_and_are_shown_to_nobody(running_hub: RunHub) -> None:
    """RH-33, RD-06, RD-15, RD-22: sealed; unsubscribing uses those that are kept; subscribing without any ends them."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "fanout")
        assert await subscribe(hub, "x/e", callbacks, "/cb", basic_auth=CREDENTIALS) == 204
        await hub.client.post(f"{X}/e", content=b"1")
        await callbacks.wait_for_posts(1)
        assert await subscribe(hub, "x/e", callbacks, "/cb", mode="unsubscribe") == 204
        assert await subscribe(hub, "x/e", callbacks, "/cb") == 204
        await hub.client.post(f"{X}/e", content=b"2")
        posts = await callbacks.wait_for_posts(2)
        refused = await subscribe(hub, "x/e", callbacks, "/cb", basic_auth="not base64")
        stored = await hub.sql("SELECT s::text FROM hookwire.subscriptions s")
        asked = await hub.sql("SELECT i::text FROM hookwire.intents i")

        heads = [f"authorization: basic {CREDENTIALS.lower()}" in head.lower() for head in callbacks.heads]
        assert (heads, refused) == ([True, True, False], 400)
        assert [about.get("authorization") for _, about, _ in posts] == [f"Basic {CREDENTIALS}", None]
        assert CREDENTIALS not in str((stored, asked, (await hub.client.get(SUBSCRIPTIONS)).text))
        assert "authorization" not in str(asked)


@pytest.mark.parametrize("exchange_type", ["direct", "fanout", "topic", "headers"])
@pytest.mark.parametrize("persist", [None, "1", "false"])
async def test_publishing_to_each_kind_of_exchange(
    shared_hub: RunHub, topic: str, exchange_type: str, persist: str | None
) -> None:
    """RH-06, RH-08..RH-11: with and without persistence; the ids that the operator's settings name, both ways."""
    ids = {"rabbithub_message_id_header": "X-Message-Id", "rabbithub_correlation_id_header": "X-Correlation-Id"}
    async with shared_hub(ALL_ROLES, **ids) as hub, serve_callbacks() as callbacks:
        await exchange(hub, topic, exchange_type)
        bound = "x-match=all, k=v" if exchange_type == "headers" else "key"
        assert await subscribe(hub, f"x/{topic}", callbacks, "/cb", topic=bound) == 204
        query = {"hub.topic": "key"} | ({"hub.persistmsg": persist} if persist else {})
        answer = await hub.client.post(
            f"{X}/{topic}",
            params=query,
            content=b"m",
            headers={"x-rabbithub-msg_header": "k=v", "X-Correlation-Id": "c7"},
        )
        ((_, about, body),) = await callbacks.wait_for_posts(1)

        assert (answer.status_code, body, about["k"], about["x-correlation-id"]) == (202, b"m", "v", "c7")
        assert answer.headers["x-correlation-id"] == "c7"
        assert about["x-message-id"] == answer.headers["x-message-id"] == about["webhook-id"]


async def test_a_message_s_id_is_the_event_s(running_hub: RunHub) -> None:
    """RH-10: also the id of the JSON API; the query may name another header; not one that is the hub's own."""
    async with running_hub() as hub:
        await exchange(hub, "e", "fanout")
        named = await hub.client.post(f"{X}/e?set_message_id=X-Id", content=b"m")
        event = await hub.client.get(f"/events/{named.headers['x-id']}")
        bare = await hub.client.post(f"{X}/e", content=b"m")
        wrong = await statuses(
            hub.client.post(f"{X}/e?set_message_id=a%20b", content=b"m"),
            hub.client.post(f"{X}/e?set_message_id=webhook-id", content=b"m"),
            hub.client.post(f"{X}/e?set_correlation_id=content-type", content=b"m"),
            hub.client.post(f"{X}/e", content=b"m", headers={"x-rabbithub-msg_header": "hookwire-link=x"}),
            hub.client.post(f"{X}/e?{'a=b&' * 70}", content=b"m"),
        )

        assert (event.status_code, "x-id" in bare.headers, wrong) == (200, False, [400] * 5)


@pytest.mark.parametrize("name", ["name", "sequence", "event", "level", "timestamp", "exc-info"])
async def test_a_message_is_accepted_whatever_header_bears_its_correlation_id(
    shared_hub: RunHub, topic: str, name: str
) -> None:
    """FS-11: these are names of the logger's own; the publisher was told 500 after the event was stored."""
    async with shared_hub(log_level="info") as hub:
        await exchange(hub, topic, "fanout")
        answer = await hub.client.post(f"{X}/{topic}?set_correlation_id={name}&set_message_id=id", headers={name: "c7"})
        stored = await hub.sql("SELECT headers ->> $1 FROM hookwire.events WHERE headers ->> $1 IS NOT NULL", name)

        assert (answer.status_code, answer.headers[name], stored) == (202, "c7", [("c7",)])


@pytest.mark.parametrize(
    "name", ["authorization", "Cookie", "Proxy-Authorization", "proxy-user", "x-api-key", "X-Forwarded-For"]
)
async def test_a_header_that_may_hold_a_secret_is_no_part_of_a_message(
    shared_hub: RunHub, topic: str, name: str
) -> None:
    """FS-14: the publisher's bearer key was stored in clear, and delivered to every subscriber."""
    async with shared_hub() as hub:
        await exchange(hub, topic, "fanout")
        secret = {name: "Bearer s3cret"}
        refused = await statuses(
            hub.client.post(f"{X}/{topic}?set_correlation_id={name}", content=b"m", headers=secret),
            hub.client.post(f"{X}/{topic}?set_message_id={name}", content=b"m"),
            hub.client.post(f"{X}/{topic}", content=b"m", headers={"x-rabbithub-msg_header": f"{name}=s3cret"}),
        )

        assert (refused, await hub.sql("SELECT FROM hookwire.events")) == ([400] * 3, [])


async def test_a_list_of_headers_that_is_all_blanks_is_refused_at_once(running_hub: RunHub) -> None:
    """FS-01: one such request kept the whole process for hours; also as the binding of a headers exchange."""
    async with running_hub() as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "headers")
        blanks = f'a={" " * 30_000}"'
        published = await hub.client.post(f"{X}/e", content=b"m", headers={"x-rabbithub-msg_header": blanks})
        bound = await subscribe(hub, "x/e", callbacks, "/cb", topic=blanks)

        assert (published.status_code, bound) == (400, 400)


async def test_a_virtual_host_that_is_too_long_is_refused(running_hub: RunHub) -> None:
    """RH-01: no index would hold it, and that is no failure of ours."""
    async with running_hub() as hub:
        answer = await hub.client.put(f"/rabbithub/{secrets.token_hex(3_000)}/endpoint/q/q")
        assert (answer.status_code, answer.text) == (400, "a virtual host has 255 bytes at most\n")


async def test_a_queue_subscribes_to_an_exchange_by_its_own_token(running_hub: RunHub) -> None:
    """RH-15, RH-18: a binding, no HTTP hop; listed; a message comes once however many bindings choose it."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "topic")
        await hub.client.put(f"{Q}/q")
        endpoint = f"{hub.url}{Q}/q"

        async def ask(mode: str, topic: str, token: str) -> int:
            wish = {"mode": mode, "callback": endpoint, "topic": topic, "verify": "sync", "verify_token": token}
            named = {f"hub.{name}": value for name, value in wish.items()}
            return (await hub.client.post("/rabbithub/subscribe/x/e", data=named)).status_code

        in_use = await token_of(hub, "q/q", "subscribe")
        bound = [await ask("subscribe", topic, in_use) for topic in ("eu.#", "*.orders", "eu.#")]
        wrong_use = await ask("unsubscribe", "eu.#", in_use)
        shown = (await hub.client.get(SUBSCRIPTIONS)).json()["subscriptions"]
        one = await hub.client.get(f"{SUBSCRIPTIONS}/x/e", params={"hub.callback": endpoint, "hub.topic": "eu.#"})
        for key in ("eu.orders", "us.orders", "us.users"):
            await hub.client.post(f"{X}/e?hub.topic={key}", content=key.encode())
        assert await subscribe(hub, "q/q", callbacks, "/cb") == 204
        posts = await callbacks.wait_for_posts(2)
        ending = await token_of(hub, "q/q", "unsubscribe")
        ended = [await ask("unsubscribe", topic, ending) for topic in ("eu.#", "eu.#")]
        for key in ("eu.users", "us.orders"):
            await hub.client.post(f"{X}/e?hub.topic={key}", content=key.encode())
        posts = await callbacks.wait_for_posts(3)
        gone = await statuses(hub.client.delete(f"{Q}/q"))

        assert (bound, wrong_use, ended, gone) == ([204] * 3, 400, [204, 404], [204])
        assert {(s["resource_type"], s["callback"], s["topic"]) for s in shown} == {
            ("exchange", endpoint, "eu.#"), ("exchange", endpoint, "*.orders"),
        }  # fmt: skip
        assert (one.status_code, one.json()["lease_expiry_time_microsec"]) == (200, None)
        assert sorted(body for _, _, body in posts) == [b"eu.orders", b"us.orders", b"us.orders"]
        assert (await hub.client.get(SUBSCRIPTIONS)).json() == {"subscriptions": []}


async def test_a_message_that_its_subscriber_calls_bad_is_not_lost(running_hub: RunHub) -> None:
    """RH-40, RH-41, RH-44: a subscriber that answers 400."""
    dead = {"rabbithub_on_http_error": "dead_letter"}
    async with running_hub(ALL_ROLES, **dead) as hub, serve_callbacks() as callbacks:
        callbacks.script["/cb?hub.topic="] = answers(400)
        await hub.client.put(f"{Q}/q")
        await subscribe(hub, "q/q", callbacks, "/cb")
        await hub.client.post(f"{Q}/q", content=b"bad")
        found = await hub.until("/deliveries?state=dead", lambda answer: answer["items"])
        errors = (await hub.client.get(f"{SUBSCRIPTIONS}/errors")).json()["errors"]

        assert len(found["items"]) == 1
        assert [(one["error_count"], one["last_error_msg"]) for one in errors] == [(1, "answered 400")]


async def test_unsubscribing_by_form_and_json_deleting_and_listing(running_hub: RunHub) -> None:
    """RH-29, RH-31, RH-46..RH-48: all, one, those that end within a day."""
    async with running_hub() as hub, serve_callbacks() as callbacks:
        await hub.client.put(f"{Q}/q")
        for path, lease in (("/a", "3600"), ("/b", "3600"), ("/c", "864000")):
            assert await subscribe(hub, "q/q", callbacks, path, lease_seconds=lease) == 204
        by_form = await subscribe(hub, "q/q", callbacks, "/a", mode="unsubscribe")
        wish = {"callback": callbacks.url("/b"), "topic": "#", "mode": "unsubscribe", "verify": "sync"}
        by_json = await hub.client.post("/rabbithub/subscribe/q/q", json={"hub": wish})
        soon = (await hub.client.get(f"{SUBSCRIPTIONS}?hub.expires=1")).json()["subscriptions"]
        ever = (await hub.client.get(f"{SUBSCRIPTIONS}?hub.expires=999999999")).json()["subscriptions"]
        pair = {"hub.callback": callbacks.url("/a"), "hub.topic": "#"}
        one = await hub.client.get(f"{SUBSCRIPTIONS}/q/q", params=pair)
        deleted = await statuses(hub.client.delete("/rabbithub/subscribe/q/q", params=pair))
        found = await listed(hub)

        assert (by_form, by_json.status_code, one.json()["status"], deleted) == (204, 204, "inactive", [200])
        assert ({s["callback"] for s in soon}, len(ever)) == ({callbacks.url("/a"), callbacks.url("/b")}, 3)
        assert {path: s["status"] for path, s in found.items()} == {"/b": "inactive", "/c": "active"}


async def test_what_was_exported_is_imported_without_asking_anybody(running_hub: RunHub) -> None:
    """RH-49: active and inactive, an update by batch, a deletion of all; each item by itself; the guard applies."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await hub.client.put(f"{Q}/q")

        def item(path: str, **more: Any) -> dict[str, Any]:
            about = {"vhost": "/", "resource_type": "queue", "resource_name": "q", "topic": "t", "ha_mode": "none"}
            ignored = {"pseudo_queue": "[undefined]", "lease_expiry_time_microsec": 1}
            return {**about, "callback": callbacks.url(path), "lease_seconds": 3600, **ignored, **more}

        auth = {"outbound_auth": {"auth_type": "basic_auth", "auth_config": CREDENTIALS}}
        batch = [
            item("/on", status="active", maxtps=7, **auth), item("/off", status="inactive"),
            item("/cb", resource_name="none"), item("/cb", callback="http://169.254.169.254/"), item("/cb", topic=None),
            item("/cb", status="odd"), item("/cb", resource_type="odd"), item("/cb", contact="x"),
            item("/cb", contact={"app_name": "x" * 1_001}),
        ]  # fmt: skip
        first = await hub.client.post(SUBSCRIPTIONS, json={"subscriptions": batch})
        made = await listed(hub)
        exported = (await hub.client.get(SUBSCRIPTIONS)).json()
        for one in exported["subscriptions"]:
            one["status"] = "active"
        second = await hub.client.post(SUBSCRIPTIONS, json=exported)
        updated = await listed(hub)
        typed = {"Content-Type": "application/json"}
        bad = await statuses(
            hub.client.post(SUBSCRIPTIONS, content=b"{", headers=typed),
            hub.client.post(SUBSCRIPTIONS, json={"subscriptions": [1]}),
            hub.client.post(SUBSCRIPTIONS, json=[]),
            hub.client.post(SUBSCRIPTIONS, json={"subscriptions": [{}] * 1001}),
            hub.client.post(f"{SUBSCRIPTIONS}/q/q", json=exported),
        )
        audited = (await hub.client.get("/audit")).json()["items"]
        for one in exported["subscriptions"]:
            pair = {"hub.callback": one["callback"], "hub.topic": one["topic"]}
            await hub.client.delete("/rabbithub/subscribe/q/q", params=pair)

        results = first.json()["subscriptions"]
        assert (first.status_code, [one["status"] for one in results]) == (202, ["ok", "ok", *["error"] * 7])
        assert results[2]["reason"] == "there is no queue of this name"
        assert {path: (s["status"], s["max_tps"], s["outbound_auth"] != {}) for path, s in made.items()} == {
            "/on": ("active", 7, True), "/off": ("inactive", 0, False),
        }  # fmt: skip
        assert (second.status_code, {path: s["status"] for path, s in updated.items()}) == (
            202, {"/on": "active", "/off": "active"},
        )  # fmt: skip
        assert bad == [400, 400, 400, 413, 405]
        assert [(entry["action"], entry["records"]) for entry in audited] == [("import", 2), ("import", 2)]
        assert (callbacks.targets, await listed(hub)) == ([], {})


async def test_rabbithub_s_clients_log_in_as_they_did(running_hub: RunHub) -> None:
    """RH-17, RH-50, RD-06, RD-17: Basic, the key as password; never from a page; tokens need no login."""
    async with running_hub(access="keys") as hub:
        admin, publish = await bearer(hub, "admin"), await bearer(hub, "publish")

        async def status(method: str, path: str, user: str | None, key: str, **headers: str) -> int:
            auth = httpx.BasicAuth(user, key) if user is not None else None
            answer = await hub.client.request(method, f"/rabbithub/{path}", auth=auth, headers=headers, content=b"m")
            return answer.status_code

        made = await status("PUT", "endpoint/x/e", "guest", admin)
        nobody = await hub.client.put(f"{X}/e")
        asked = {"hub.mode": "generate_token", "hub.intended_use": "subscribe"}
        token = httpx.QueryParams((await hub.client.get(f"{X}/e", params=asked, headers=authorized(admin))).text)
        right = {"hub.mode": "subscribe", "hub.challenge": "c", "hub.verify_token": token["hub.verify_token"]}
        found = [
            await status("POST", "endpoint/x/e", "user", publish), await status("PUT", "endpoint/x/f", "user", publish),
            await status("POST", "endpoint/x/e", "user", "wrong:password"),
            await status("POST", "endpoint/x/e", "user", publish, Origin=str(hub.client.base_url).rstrip("/")),
            await status("POST", "endpoint/x/e", "user", publish, **{"Sec-Fetch-Site": "same-origin"}),
            await status("POST", "endpoint/x/e", "user", publish, Origin="https://evil.example"),
        ]  # fmt: skip
        verified = await hub.client.get(f"{X}/e", params=right)
        forged = await hub.client.get(f"{X}/e", params={**right, "hub.verify_token": "forged"})
        bare = await hub.client.get(f"{X}/e")

        assert (made, found) == (201, [202, 403, 401, 401, 401, 403])
        assert (nobody.status_code, "Basic realm" in nobody.headers["www-authenticate"]) == (401, True)
        assert (verified.status_code, verified.text, forged.status_code, bare.status_code) == (200, "c", 400, 401)


async def test_the_routing_key_may_be_left_out_of_the_callback(running_hub: RunHub) -> None:
    """RH-38: ``append_hub_topic_to_callback``."""
    async with running_hub(ALL_ROLES, rabbithub_append_hub_topic=False) as hub, serve_callbacks() as callbacks:
        await exchange(hub, "e", "fanout")
        await subscribe(hub, "x/e", callbacks, "/cb?a=b")
        await hub.client.post(f"{X}/e?hub.topic=k", content=b"m")
        ((target, about, _),) = await callbacks.wait_for_posts(1)

        assert (target, about["x-amqp-routing-key"]) == ("/cb?a=b", "k")
