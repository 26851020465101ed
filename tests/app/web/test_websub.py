"""The WebSub hub from outside, over HTTP: the matrices of section 1.12 that need a whole hub, and the flood (T19)."""

from __future__ import annotations

import asyncio
import hmac
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.hub.callback import Callbacks, serve_callbacks

RAW = {
    "/cb1?foo=bar&red=fish": "/cb1?foo=bar&red=fish",
    "/cb2?^z=y&a=b&a=a": "/cb2?^z=y&a=b&a=a",
    "/a/../cb3?a=%2f+%20&%7E": "/a/../cb3?a=%2f+%20&%7E",
    "/cb4?a&b=&=c": "/cb4?a&b=&=c",
    '/cb5?a="q"': '/cb5?a="q"',
    "/cb6?é": "/cb6?%C3%A9",
    "/cb7?hub.challenge=imahacker&hub.mode=x": "/cb7?hub.challenge=imahacker&hub.mode=x",
}
BODIES = {"empty": b"", "text": "grüße\n".encode(), "binary": bytes(range(256)), "1 MB": b"\x00\xff" * 500_000}
SECRETS = {"ascii": "s3cr3t", "others": "ключ-κλειδί", "199 bytes": "s" * 199}
METHODS = ("sha1", "sha256", "sha384", "sha512")


async def ask(
    hub: RunningHub, callback: str, topic: str = "t", mode: str = "subscribe", requester: str = "192.0.2.1", **more: str
) -> int:
    """The status; ``requester`` counts where the hub trusts us as a proxy."""
    form = {"mode": mode, "callback": callback, "topic": f"{hub.url}/topics/{topic}", **more}
    fields = {f"hub.{name}": value for name, value in form.items()}
    answer = await hub.client.post("/hub", data=fields, headers={"X-Forwarded-For": requester})
    return answer.status_code


async def active(hub: RunningHub, count: int) -> list[dict[str, Any]]:
    """The subscriptions, once so many are active."""
    path = "/subscriptions?limit=100&state=active"
    return list((await hub.until(path, lambda answer: len(answer["items"]) == count))["items"])


async def test_a_callback_s_query_is_sent_as_it_was_given_by_every_kind_of_request(running_hub: RunHub) -> None:
    """TG-B: 7 callbacks x verification, delivery, denial; WS-24..WS-27, WS-37, WS-62, UD-08, HD-04."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        accepted = [await ask(hub, callbacks.url(callback)) for callback in RAW]
        subscriptions = await active(hub, len(RAW))
        await hub.publish("t", b"m")
        posts = await callbacks.wait_for_posts(len(RAW))
        for one in subscriptions:
            await hub.client.post(f"/subscriptions/{one['id']}/denial", json={})
        await callbacks.wait_for(2 * len(RAW))

        asked, told = callbacks.targets[: len(RAW)], callbacks.targets[len(RAW) :]
        assert accepted == [202] * len(RAW)
        assert {
            raw: [t for t in asked if t.startswith(f"{raw}&hub.mode=subscribe&")] != [] for raw in RAW.values()
        } == (dict.fromkeys(RAW.values(), True))
        assert sorted(target for target, _, _ in posts) == sorted(RAW.values())
        topic = quote(f"{hub.url}/topics/t", safe="")
        assert sorted(told) == sorted(f"{raw}&hub.mode=denied&hub.topic={topic}" for raw in RAW.values())


async def test_every_signature_is_the_hmac_of_what_arrives(running_hub: RunHub) -> None:
    """TG-E: 4 methods x 4 bodies x 3 secrets; WS-54, WS-63, WS-64, SG-1, SG-3."""
    async with running_hub(ALL_ROLES, event_bytes_max=2_000_000) as hub, serve_callbacks() as callbacks:
        for method in METHODS:
            for name, secret in SECRETS.items():
                path = f"/{method}/{name.replace(' ', '-')}"
                await ask(hub, callbacks.url(path), secret=secret, hash_algorithms=method)
        await ask(hub, callbacks.url("/none/none"))
        await active(hub, len(METHODS) * len(SECRETS) + 1)
        for body in BODIES.values():
            await hub.publish("t", body)
        posts = await callbacks.wait_for_posts(len(BODIES) * (len(METHODS) * len(SECRETS) + 1))

        expected = {
            (f"/{method}/{name.replace(' ', '-')}", f"{method}={hmac.digest(secret.encode(), body, method).hex()}")
            for method in METHODS
            for name, secret in SECRETS.items()
            for body in BODIES.values()
        }
        assert {(path, about.get("x-hub-signature")) for path, about, _ in posts} == expected | {("/none/none", None)}
        assert {body for _, _, body in posts} == set(BODIES.values())


@pytest.mark.parametrize(
    ("method", "headers", "body", "status"),
    [
        ("GET", {}, "", 405),
        ("PUT", {}, "hub.mode=subscribe", 405),
        ("POST", {"content-type": "application/json"}, "{}", 415),
        ("POST", {"content-type": "multipart/form-data; boundary=x"}, "--x--", 415),
        ("POST", {"content-type": "application/x-www-form-urlencoded; charset=latin-1"}, "hub.mode=subscribe", 415),
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, "hub.mode=%ff", 400),
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, "a=b&" * 70, 400),
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, "a" * 70_000, 413),
    ],
    ids=["GET", "PUT", "json", "multipart", "charset", "no UTF-8", "fields", "size"],
)
async def test_a_refused_request_changes_nothing(
    kept_hub: RunningHub, method: str, headers: dict[str, str], body: str, status: int
) -> None:
    """TG-F; WS-09, WS-30, WS-102, B-20..B-23: and is never a server error."""
    answer = await kept_hub.client.request(method, "/hub?hub.mode=subscribe", headers=headers, content=body)
    stored = await kept_hub.sql("SELECT FROM hookwire.intents UNION ALL SELECT FROM hookwire.subscriptions")

    assert (answer.status_code, stored) == (status, [])


async def test_a_small_flood_of_subscribe_requests_hardly_reaches_its_victim(running_hub: RunHub) -> None:
    """T19, WS-101, UD-18: as `tests/faults/test_flood.py`, with fewer requests."""
    await flood(running_hub, 350)


async def flood(running_hub: RunHub, requests: int) -> None:
    """So many requests that name one host: it sees no more than it may; others are served; nothing is a 5xx."""
    async with running_hub(trusted_proxies="127.0.0.1") as hub, serve_callbacks() as callbacks:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        answers: list[int] = []

        async def attacker() -> None:
            while len(answers) < requests or 429 not in answers:  # a slow machine gives the bucket time to fill again
                number = len(answers)
                answers.append(await ask(hub, callbacks.url(f"/{number}"), topic=f"t{number}"))

        await asyncio.gather(*(attacker() for _ in range(16)))
        other = await ask(hub, callbacks.url("/honest", host="127.0.0.2"), requester="198.51.100.7")
        await hub.until("/subscriptions?topic=t", lambda answer: [s["state"] for s in answer["items"]] == ["active"])
        seen = _seen(callbacks)
        minutes = (loop.time() - started_at) / 60

        assert (len(answers) >= requests, set(answers), other) == (True, {202, 429}, 202)
        assert seen <= 300 * (1 + minutes)
        assert answers.count(202) <= 300 * (1 + minutes)
        assert callbacks.open_most["127.0.0.1 subscribe"] == 1


def _seen(callbacks: Callbacks) -> int:
    """Requests that reached the victim."""
    return sum(
        parse_qs(target.partition("?")[2])["hub.topic"][0].rpartition("/")[2] != "t" for target in callbacks.targets
    )
