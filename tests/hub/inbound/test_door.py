"""What a verified request becomes: topic, key, headers, delivery id, or the answer to a handshake (GW-07)."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from db.secret_box import SecretBoxError
from event.event import Draft
from hub.inbound.door import DoorRefused, EventRefused, HandshakeAnswer, InboundEvent, InboundSource
from hub.inbound.doors import DoorState
from hub.inbound.known_doors import FRESH_SECONDS, KnownDoors

GITHUB = {"x-github-event": "push", "x-github-delivery": "72d3", "content-type": "application/json"}


def take(preset: str, sent: dict[str, str], body: bytes, **settings: Any) -> HandshakeAnswer | InboundEvent:
    given = {name: [value.encode()] for name, value in sent.items()}
    return InboundSource.made("shop", preset, settings).take(given, body)


def draft(preset: str, sent: dict[str, str], body: bytes, **settings: Any) -> Draft:
    taken = take(preset, sent, body, **settings)
    assert isinstance(taken, InboundEvent)
    return taken.draft


def test_type_id_key_and_named_headers_become_parts_of_the_event() -> None:
    body = b'{"repository":{"full_name":"octocat/hello"}}'
    settings = {"topic": "git.{type}", "key": "body:repository.full_name", "headers": ["X-GitHub-Event"]}
    assert draft("github", GITHUB | {"cookie": "a"}, body, **settings) == Draft(
        "git.push", body, "octocat/hello", "application/json", {"x-github-event": "push"}, "shop:72d3\x1fin"
    )


@pytest.mark.parametrize("key", ["k" * 1_025, "a\nb"], ids=["long", "two lines"])
def test_an_event_whose_key_is_no_ordering_key_arrives_and_keeps_its_order(key: str) -> None:
    """The webhook was refused with 422, and its sender would not send it again."""
    body = json.dumps({"id": key}).encode()
    found = draft("github", GITHUB, body, key="body:id")
    assert (found.payload, found.key) == (body, f"sha256-{hashlib.sha256(key.encode()).hexdigest()}")


def test_an_empty_list_of_references_is_none_and_not_that_of_the_preset() -> None:
    found = draft("github", GITHUB, b"{}", id=[], type=[])
    assert (found.idempotency_key, found.topic) == (None, "shop.unknown")


@pytest.mark.parametrize(
    ("kind", "topic"),
    [
        ("invoice.paid", "shop.invoice.paid"), ("orders/create", "shop.orders.create"), ("Push Hook", "shop.Push_Hook"),
        ("..", "shop.unknown"), ("", "shop.unknown"), ("ünï", "shop._n_"), ("a" * 900, "shop." + "a" * 244),
        ("hookwire.test", "shop.hookwire.test"),
    ],
    ids=["words", "slash", "blank", "dots", "none", "letters", "long", "reserved word"],
)  # fmt: skip
def test_an_event_type_becomes_words_of_the_topic(kind: str, topic: str) -> None:
    assert draft("shopify", {"x-shopify-topic": kind}, b"{}").topic == topic


def test_a_long_type_in_many_places_of_a_template_is_not_repeated_before_the_cut() -> None:
    body = json.dumps({"type": "a" * 500_000}).encode()
    settings: dict[str, Any] = {"type": ["body:type"], "topic": "shop" + ".{type}" * 200}
    tracemalloc.start()
    try:
        made = draft("hmac", {}, body, **settings)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert made.topic == "shop." + "a" * 244
    assert peak < 20_000_000, f"{peak:,} bytes of memory for one topic"


def test_a_type_cannot_reach_the_topics_of_the_hub() -> None:
    with pytest.raises(EventRefused):
        take("shopify", {"x-shopify-topic": "wire.jobs"}, b"{}", topic="hook{type}")


@pytest.mark.parametrize(
    ("preset", "headers", "body", "answer"),
    [
        ("slack", {}, b'{"type":"url_verification","challenge":"3eZbrw"}', "3eZbrw"),
        ("slack", {}, b'{"type":"url_verification"}', ""),
        ("github", {"x-github-event": "ping"}, b'{"zen":"Keep it simple."}', "ok"),
    ],
    ids=["slack", "slack without a challenge", "github"],
)
def test_a_handshake_is_answered_and_makes_no_event(
    preset: str, headers: dict[str, str], body: bytes, answer: str
) -> None:
    assert take(preset, headers, body) == HandshakeAnswer(answer)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"nul", b'{"id":', b'{"id":{"a":1}}', b'{"id":true}', b'{"id":null}', b"\xff", b"[" * 100_000],
    ids=range(9),
)
def test_a_signed_body_without_type_and_id_is_an_event_nevertheless(body: bytes) -> None:
    found = draft("stripe", {}, body)
    assert (found.topic, found.payload, found.idempotency_key) == ("shop.unknown", body, None)


def test_a_repeat_has_the_same_fingerprint_whatever_its_headers_say() -> None:
    """A repeat has another signature and another retry header."""
    body = json.dumps({"event_id": "Ev1", "event": {"type": "message"}}).encode()
    first, again = (take("slack", {"x-slack-retry-num": number}, body) for number in ("0", "1"))
    assert isinstance(first, InboundEvent)
    assert isinstance(again, InboundEvent)
    assert (first.fingerprint, first.draft.idempotency_key) == (again.fingerprint, again.draft.idempotency_key)


@pytest.mark.parametrize("identity", ["a" * 300, "a\tb", "\x1f"], ids=["long", "tab", "separator"])
def test_a_delivery_id_of_any_form_is_a_key_of_bounded_length(identity: str) -> None:
    key = draft("github", GITHUB | {"x-github-delivery": identity}, b"{}", headers=[]).idempotency_key
    assert key is not None
    assert (len(key), key.count("\x1f"), key[:5]) == (72, 1, "shop:")


def along(value: bytes, name: str = "x-trace", count: int = 1) -> InboundEvent:
    """The event of a signed request with a header that merely comes along."""
    made = InboundSource.made("shop", "hmac", {"headers": ["x-trace", "x-more"]})
    taken = made.take({name: [value] * count, "x-more": [b"m"]}, b"{}")
    assert isinstance(taken, InboundEvent)
    return taken


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"a" * 1_025, "a" * 1_025), (b"a\tb", "a%09b"), ("a\u00a0b".encode(), "a\u00a0b"), (b"caf\xe9", "caf%E9"),
        (b"a\x00b", "a%00b"), ("grün".encode(), "grün"), (b"", ""),
    ],
    ids=["long", "tab", "no-break space", "Latin-1", "NUL", "letters", "empty"],
)  # fmt: skip
def test_a_header_that_comes_along_becomes_text(value: bytes, text: str) -> None:
    """No request was an event with one of these, and many senders never repeat it."""
    assert (along(value).draft.headers, along(value).left_out) == ({"x-trace": text, "x-more": "m"}, ())


@pytest.mark.parametrize(
    ("taken", "left_out", "content_type"),
    [
        (along(b"a" * 14_001), ("x-trace", "limit"), None),
        (along(b"a", count=2), ("x-trace", "twice"), None),
        (along(b"a" * 256, "content-type"), ("content-type", "content_type"), None),
        (along("text/grün".encode(), "content-type"), ("content-type", "content_type"), None),
        (along(b"text/gr\xfcn", "content-type"), ("content-type", "content_type"), None),
        (along(b"x", "hookwire-hops"), ("hookwire-hops", "hops"), None),
    ],
    ids=["limit", "twice", "long type", "type with letters", "type in Latin-1", "no number"],
)
def test_a_header_that_no_event_can_have_is_left_out_and_named(
    taken: InboundEvent, left_out: tuple[str, str], content_type: str | None
) -> None:
    assert (taken.left_out, taken.draft.content_type) == ((left_out,), content_type)
    assert taken.draft.headers == {"x-more": "m"} | ({"x-trace": "a"} if left_out[1] == "twice" else {})


def test_an_event_that_has_passed_too_many_hubs_is_refused() -> None:
    """WS-105: hubs that feed each other do not loop."""
    with pytest.raises(EventRefused, match="too many hubs"):
        take("github", GITHUB | {"hookwire-hops": "9"}, b"{}")


@pytest.mark.parametrize("part", ["id", "type", "key"])
def test_no_part_of_an_event_is_taken_from_the_header_of_the_secret(part: str) -> None:
    with pytest.raises(DoorRefused, match="holds the signature or the secret"):
        take("gitlab", {}, b"{}", **{part: "header:x-gitlab-token"})


class Stored:
    """Doors of a database that counts its questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def find(self, name: str) -> Any:
        self.asked.append(name)
        made = InboundSource.made(name, "github", {})
        return DoorState(made, {}, 60, datetime.now(UTC)) if name == "real" else None


async def test_invented_names_take_no_door_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.inbound.known_doors.time", SimpleNamespace(monotonic=lambda: 1.0))
    stored: Any = Stored()
    known = KnownDoors(stored)
    await known.find("real")
    for number in range(10_001):
        await known.find(f"invented-{number}")
    await known.find("real")
    assert stored.asked.count("real") == 1


class Unreadable(Stored):
    """Doors of a database whose secrets' key is lost."""

    async def find(self, name: str) -> Any:
        self.asked.append(name)
        raise SecretBoxError("the key 'lost' is missing")


async def test_a_door_whose_secret_cannot_be_read_costs_no_query_for_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Strangers may ask for it, too."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("hub.inbound.known_doors.time", SimpleNamespace(monotonic=lambda: clock.now))
    stored: Any = Unreadable()
    known = KnownDoors(stored)
    counts = []
    for at in (1.0, 1.0 + FRESH_SECONDS / 2, 1.0 + FRESH_SECONDS):
        clock.now = at
        with pytest.raises(SecretBoxError, match="'lost'"):
            await known.find("real")
        counts.append(len(stored.asked))
    assert counts == [1, 1, 2]
