"""webhooks/worker.py on the wire: bodies, headers, signatures; and from when on a change of a subscription counts."""

import hmac
import time
from collections import Counter

import pytest
from standardwebhooks import Webhook

from tests.hostile.server import hostile_server
from tests.webhooks.harness import PUBLIC, delivery_harness
from tests.webhooks.verifying import verify_webhook
from webhooks.signature import HmacKey, new_key, parse_key

PAYLOADS = {
    "text": b'{"n": 1}',
    "binary": bytes(range(256)),
    "empty": b"",
    "1 MiB": bytes(range(256)) * 4096,
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
async def test_the_body_is_what_was_published_and_its_signature_verifies(database_url: str, payload: bytes) -> None:
    """WS-51, WH-S01, WH-S02; WH-S12: the reference library reads text bodies only."""
    content_type = "application/x-thing; v=\u00e9\u0436"
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/ok"))
        (event,) = await harness.deliver(payload, content_type=content_type)
        async with harness.working():
            await harness.drained()
        (request,) = server.requests
        assert (request.body, request.header("content-type"), request.header("content-length")) == (
            payload,
            content_type.encode(),
            str(len(payload)).encode(),
        )
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        assert headers["webhook-id"] == f"evt_abcd2345_{event}"
        key = parse_key(harness.secrets[subscription])
        assert isinstance(key, HmacKey)
        verify_webhook([key], headers, payload, time.time())
        if payload.isascii():
            Webhook(harness.secrets[subscription]).verify(payload, headers, json_parse=False)


async def test_a_delivery_carries_topic_key_sequence_and_attributes(database_url: str) -> None:
    """WH-O05, WH-08, WH-C02."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"), topic="a.*")
        headers = '{"ce-type": "x y", "traceparent": "00-1-2-03"}'
        (event,) = await harness.deliver(b"{}", topic="a.b", key="schlüssel", headers=headers)
        async with harness.working():
            await harness.drained()
        (request,) = server.requests
        names = (
            "hookwire-topic",
            "hookwire-key",
            "hookwire-sequence",
            "hookwire-hops",
            "ce-type",
            "traceparent",
            "link",
        )
        assert [request.header(name) for name in names] == [
            b"a.b", b"schl%C3%BCssel", b"%d" % event, b"1", b"x%20y", b"00-1-2-03",
            f'<{PUBLIC}/topics/a.b>; rel="self"'.encode(),
        ]  # fmt: skip


async def test_headers_that_a_publisher_wrote_by_sql_neither_forge_nor_break_a_delivery(database_url: str) -> None:
    """WH-05, EG-16: framing and signatures are ours, nonsense is not carried. An older version stored it (FS-13)."""
    forged = (
        '{"webhook-id": "evil", "x-hub-signature": "sha1=0", "host": "evil", "content-length": "1", "link": "<evil>",'
        ' "hookwire-hops": "many", "hookwire-key": "evil", "transfer-encoding": "chunked", "x-mine": "ж"}'
    )
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok"))
        await harness.deliver(b"{}")
        await harness.sql.execute("UPDATE hookwire.events SET headers = $1", forged)
        async with harness.working():
            await harness.drained()
        (request,) = server.requests
        names = Counter(name for name, _ in request.headers)
        assert (max(names.values()), b"evil" in b"".join(value for _, value in request.headers)) == (1, False)
        assert [request.header(name) for name in ("x-hub-signature", "hookwire-key", "hookwire-hops", "x-mine")] == [
            None, None, b"1", b"%D0%B6",
        ]  # fmt: skip


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_a_websub_delivery_has_the_link_header_and_both_signatures(database_url: str, method: str) -> None:
    """WS-50..WS-54, WS-63, WH-S13, WH-S15: each subscriber's own secret, checked over the raw bytes."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        secrets = {"/ok/one": "s3cr3t", "/ok/other": "ключ"}
        for path, secret in secrets.items():
            await harness.subscribe_websub(server.url(path), secret, signature_method=method)
        await harness.deliver(PAYLOADS["binary"], content_type="text/html")
        async with harness.working():
            await harness.drained()
        assert len(server.requests) == 2
        for request in server.requests:
            key = secrets[request.target.decode()].encode()
            assert (request.header("link"), request.header("content-type"), request.body) == (
                f'<{PUBLIC}/hub>; rel="hub", <{PUBLIC}/topics/t>; rel="self"'.encode(),
                b"text/html",
                PAYLOADS["binary"],
            )
            signature = hmac.new(key, request.body, method).hexdigest()
            assert request.header("x-hub-signature") == f"{method}={signature}".encode()
            headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
            verify_webhook([HmacKey(key)], headers, request.body, time.time())


async def test_without_a_secret_nothing_is_signed(database_url: str) -> None:
    """WS-64, WH-S16."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe_websub(server.url("/ok"))
        await harness.deliver(b"{}")
        async with harness.working():
            await harness.drained()
        (request,) = server.requests
        names = ("x-hub-signature", "webhook-signature")
        assert ([request.header(name) for name in names], bool(request.header("webhook-id"))) == ([None, None], True)


async def test_the_callback_is_used_as_it_was_given(database_url: str) -> None:
    """WS-62."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        await harness.subscribe(server.url("/ok/a/../b?x=%7E&y=%c3&x"))
        await harness.deliver(b"{}")
        async with harness.working():
            await harness.drained()
        assert server.requests[0].target == b"/ok/a/../b?x=%7E&y=%c3&x"


async def test_a_new_secret_and_a_new_callback_count_from_the_next_claim(database_url: str) -> None:
    """WS-104, WH-S17: the newer key signs first, the older one still does."""
    async with delivery_harness(database_url) as harness, hostile_server() as server:
        subscription = await harness.subscribe(server.url("/ok/old"))
        old, new = harness.secrets[subscription], new_key().text()
        async with harness.working():
            await harness.deliver(b"1")
            await harness.settled(1)
            await harness.keep_secret(subscription, 2, new)
            await harness.change(subscription, callback=server.url("/ok/new"))
            await harness.deliver(b"2")
            await harness.settled(2)
        first, second = server.requests
        assert (first.target, second.target) == (b"/ok/old", b"/ok/new")
        headers = {name.decode(): value.decode() for name, value in second.headers}
        for secret in (old, new):
            Webhook(secret).verify(second.body, headers, json_parse=False)
        assert len(headers["webhook-signature"].split()) == 2
