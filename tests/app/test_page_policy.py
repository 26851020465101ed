"""What a page of another site may ask of a hub, and under which names the hub answers: FS-02, SV-08."""

from __future__ import annotations

import itertools
from typing import Any

import httpx
import pytest

from app.settings.settings import Settings, SettingsRefused, load_settings
from app.web.page_policy import page_policy
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub
from tests.app.web.test_authentication import authorized, bearer
from tests.hub.callback import serve_callbacks
from tests.hub.publisher import Page, serve_topics

EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
TEXT = {"content-type": "text/plain"}
STORED = """
SELECT (SELECT count(*) FROM hookwire.events), (SELECT count(*) FROM hookwire.subscriptions),
       (SELECT count(*) FROM hookwire.intents)"""

Sent = tuple[str, dict[str, str], str]
ATTACKS: dict[str, Sent] = {
    "a: publish": ("/topics/orders.created/events", TEXT, "forged"),
    "b: subscribe by a form": ("/hub", FORM, "hub.mode=subscribe&hub.topic={hub}/topics/a&hub.callback={callback}"),
    "c: subscribe to a page on loopback": ("/hub", FORM, "hub.mode=subscribe&hub.topic={page}&hub.callback={callback}"),
    "c: ping that page": ("/hub", FORM, "hub.mode=publish&hub.url={page}"),
    "d: give a delivery up": ("/deliveries/dlv_1_1/give-up", {}, ""),
    "d: purge a dead letter": ("/dead-letters/dlv_1_1/purge", {}, ""),
    "d: purge a hold": ("/holds/hold_1/purge", {}, ""),
    "d: cancel a replay": ("/replays/replay_1/cancel", {}, ""),
    "d: ask for a handshake": ("/subscriptions/sub_1/handshake", {}, ""),
    "e: publish by RabbitHub": ("/rabbithub/endpoint/x/e", TEXT, "forged"),
    "e: subscribe by RabbitHub": ("/rabbithub/subscribe/x/e", FORM, "hub.mode=subscribe&hub.callback={callback}"),
    "e: import subscriptions": ("/rabbithub/subscriptions", TEXT, '{{"subscriptions": []}}'),
}
SITES = {
    "both": EVIL,
    "another site": {"Sec-Fetch-Site": "cross-site"},
    "another port": {"Sec-Fetch-Site": "same-site"},
    "an older browser": {"Origin": "https://evil.example"},
    "a sandbox": {"Origin": "null"},
    "a forged port": {"Origin": "http://127.0.0.1:1"},
}


def slug(answer: httpx.Response) -> tuple[int, str]:
    """The status, and the kind of problem where the answer is one."""
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return answer.status_code, answer.json()["type"].rpartition("/")[2] if is_problem else ""


async def test_a_page_of_another_site_changes_nothing(running_hub: RunHub) -> None:
    """FS-02 a to e: twelve requests that need no preflight, of six kinds of pages."""
    async with running_hub() as hub, serve_topics() as topics, serve_callbacks() as callbacks:
        topics.pages["/feed"] = Page(b"TOP-SECRET-OF-A-LOOPBACK-SERVICE", "text/plain")
        await hub.client.put("/rabbithub/endpoint/x/e")
        names = {"hub": hub.url, "page": topics.url(), "callback": callbacks.url()}
        before = await hub.sql(STORED)

        answers = {
            (attack, site): slug(
                await hub.client.post(path, headers={**headers, **SITES[site]}, content=body.format(**names))
            )
            for (attack, (path, headers, body)), site in itertools.product(ATTACKS.items(), SITES)
        }

        assert answers == dict.fromkeys(answers, (403, "foreign-page"))
        assert (await hub.sql(STORED), topics.requests, callbacks.targets) == (before, [], [])


async def test_a_page_of_another_site_gives_no_delivery_up(running_hub: RunHub, receiver: Receiver) -> None:
    """FS-02 d: a delivery that exists goes on."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("orders.*", receiver.callback)
        await hub.publish("orders.created")
        await receiver.wait_for(1)
        delivery = (await hub.until("/deliveries?state=retrying", lambda found: found["items"]))["items"][0]["id"]

        answer = await hub.client.post(f"/deliveries/{delivery}/give-up", headers=EVIL)

        assert (slug(answer), len((await hub.client.get("/deliveries?state=retrying")).json()["items"])) == (
            (403, "foreign-page"),
            1,
        )


async def test_development_fetches_no_topic_that_nobody_registered(running_hub: RunHub) -> None:
    """FS-02 c: a subscriber that is no page either does not read what this machine serves on loopback."""
    async with running_hub() as hub, serve_topics() as topics, serve_callbacks() as callbacks:
        topics.pages["/feed"] = Page(b"TOP-SECRET-OF-A-LOOPBACK-SERVICE", "text/plain")
        form = {"hub.topic": topics.url(), "hub.callback": callbacks.url()}

        subscribed = await hub.client.post("/hub", data={"hub.mode": "subscribe", **form})
        pinged = await hub.client.post("/hub", data={"hub.mode": "publish", "hub.url": topics.url()})

        assert (subscribed.status_code, pinged.status_code, topics.requests) == (404, 404, [])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "{hub}", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://{localhost}", "Host": "{localhost}"},
        {"Origin": "https://hub.example"},
        {"Origin": "https://hub.example", "Host": "hub.example:443"},
    ],
    ids=[
        "a program",
        "an address typed",
        "its own page",
        "another name of loopback",
        "the public URL",
        "a default port",
    ],
)
async def test_programs_and_the_hubs_own_pages_are_served(
    running_hub: RunHub, free_port: int, headers: dict[str, str]
) -> None:
    """FS-02: also where the public URL says localhost and the page was opened at 127.0.0.1."""
    async with running_hub(public_url="https://hub.example", listen=f"127.0.0.1:{free_port}") as hub:
        names = {"hub": f"http://127.0.0.1:{free_port}", "localhost": f"localhost:{free_port}"}
        sent = {name: value.format(**names) for name, value in headers.items()}

        answer = await hub.client.post("/topics/a/events", content=b"m", headers=sent)

        assert answer.status_code == 202


async def test_a_named_origin_publishes_and_does_nothing_else(running_hub: RunHub) -> None:
    """FS-02: HOOKWIRE_ORIGINS; its preflight is answered, and it reads what became of its event."""
    shop = {"Origin": "https://shop.example", "Sec-Fetch-Site": "cross-site"}
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,hookwire-key"}
    async with running_hub(origins="https://shop.example,https://app.example") as hub:

        async def ask(method: str, path: str, headers: dict[str, str]) -> tuple[int, str | None]:
            answer = await hub.client.request(method, path, headers=headers, content=b"{}")
            return answer.status_code, answer.headers.get("access-control-allow-origin")

        event = "/topics/orders.created/events"
        json = {"content-type": "application/json"}
        found = [
            await ask("OPTIONS", event, {**shop, **asking}),
            await ask("POST", event, {**shop, **json}),
            await ask("POST", "/topics/hookwire.a/events", {**shop, **json}),
            await ask("OPTIONS", event, {**EVIL, **asking}),
            await ask("POST", event, {**EVIL, **json}),
            await ask("OPTIONS", "/subscriptions", {**shop, **asking}),
            await ask("POST", "/subscriptions", {**shop, **json}),
            await ask("GET", "/subscriptions", shop),
        ]

        assert found == [
            (200, "https://shop.example"), (202, "https://shop.example"), (422, "https://shop.example"),
            (400, None), (403, None),
            (405, None), (403, None), (200, None),
        ]  # fmt: skip


async def test_with_keys_a_page_needs_a_key_and_a_named_origin(running_hub: RunHub) -> None:
    """FS-02: the rules of keys stand behind those of pages."""
    async with running_hub(access="keys", origins="https://shop.example") as hub:
        key = await bearer(hub, "publish")

        async def publish(origin: str, **headers: str) -> int:
            sent = {"Origin": origin, "Sec-Fetch-Site": "cross-site", **headers}
            return (await hub.client.post("/topics/a/events", content=b"m", headers=sent)).status_code

        found = [
            await publish("https://shop.example"),
            await publish("https://shop.example", **authorized(key)),
            await publish("https://evil.example", **authorized(key)),
        ]

        assert found == [401, 202, 403]


async def statuses(hub: RunningHub, host: str) -> list[int]:
    """GET and POST under this Host."""
    read = await hub.client.get("/subscriptions", headers={"Host": host})
    body = {"topic": "#", "callback": "http://127.0.0.1:9000/"}
    written = await hub.client.post("/subscriptions", headers={"Host": host}, json=body)
    return [read.status_code, written.status_code]


async def test_a_name_pointed_at_the_hub_reaches_nothing(running_hub: RunHub, free_port: int) -> None:
    """FS-02 f: DNS rebinding; names and addresses that are the hub's are served, and probes under any name."""
    listen = f"127.0.0.1:{free_port}"
    async with running_hub(public_url="https://hub.example/h", listen=listen, hosts="hub.internal") as hub:
        ours = (listen, "127.9.9.9", "[::1]:9", f"localhost:{free_port}", "LOCALHOST.", "hub.example", "hub.internal:1")
        others = (
            f"evil.example:{free_port}",
            "evil.localhost.example",
            "192.0.2.1",
            "[2001:db8::1]",
            "hub.example.evil",
        )

        served = {host: await statuses(hub, host) for host in ours}
        refused = {host: await statuses(hub, host) for host in others}
        answer = await hub.client.get("/", headers={"Host": "evil.example"})
        probe = await hub.client.get("/healthz", headers={"Host": "evil.example"})

        assert served == {host: [200, 201] for host in ours}
        assert refused == {host: [421, 421] for host in others}
        assert (slug(answer), probe.status_code) == ((421, "unknown-host"), 200)


async def test_with_keys_any_host_name_will_do(running_hub: RunHub) -> None:
    """FS-02 f: a page whose name was pointed at the hub has no key."""
    async with running_hub(access="keys") as hub:
        assert await statuses(hub, "evil.example") == [401, 401]


@pytest.mark.parametrize("listen", ["0.0.0.0:8080", "[::]:8080"])
def test_a_hub_that_listens_everywhere_answers_to_each_address(listen: str) -> None:
    """FS-02 f: a page cannot choose an address for its name, so addresses are safe."""
    policy = page_policy(Settings(listen=listen, access="proxy"), "http://localhost:8080")  # type: ignore[arg-type]

    assert (policy.any_address, "evil.example" in (policy.hosts or ())) == (True, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ORIGINS", "*"), ("ORIGINS", "null"), ("ORIGINS", "https://a.example/"), ("ORIGINS", "a.example"),
        ("HOSTS", "https://a.example"), ("HOSTS", "a.example:80"), ("HOSTS", "*.example"), ("HOSTS", "a/b"),
    ],
)  # fmt: skip
def test_what_is_no_origin_and_no_host_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """FS-02: with the setting, the value and an example."""
    monkeypatch.setenv(f"HOOKWIRE_{name}", value)
    with pytest.raises(SettingsRefused, match=f"HOOKWIRE_{name}: .* such as"):
        load_settings()


def test_origins_and_hosts_are_lists() -> None:
    settings = Settings(origins="https://A.example, http://localhost:3000", hosts="hub, HUB.internal")  # type: ignore[arg-type]

    found: Any = (settings.origins, settings.hosts)
    assert found == (("https://a.example", "http://localhost:3000"), ("hub", "hub.internal"))
