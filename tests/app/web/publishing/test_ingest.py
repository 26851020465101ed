"""POST /topics/{topic}/events: what is stored, what is answered, what is refused (B-30..B-41, EC-H03)."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from typing import Any

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.web.problem import Problem
from app.web.problem_kinds import KINDS
from app.web.publishing import envelope as envelopes
from app.web.publishing.notice import Notices
from hub.publish import Publisher
from tests.app.conftest import Receiver, RunHub, RunningHub
from tests.waiting import lasts

CALLBACK = "http://127.0.0.1:9000/hook"

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created"}
STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"
NDJSON = "application/x-ndjson"
NOTHING_STORED = re.compile(r"[Nn]o(thing| item) was stored")


async def stored(hub: RunningHub, topic: str = "%") -> list[Any]:
    columns = "topic, key, content_type, headers::text, payload"
    return await hub.sql(f"SELECT {columns} FROM hookwire.events WHERE topic LIKE $1 ORDER BY id", topic)


def kind(answer: Any) -> tuple[int, str, str]:
    """Status, media type and problem kind of an answer."""
    return answer.status_code, answer.headers["content-type"], answer.json()["type"].rpartition("/")[2]


async def test_an_event_is_answered_202_with_what_identifies_it(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        answer = await hub.publish("orders.created", b"hi", Hookwire_Key="k")

        item = answer.json()
        accepted_at = item.pop("accepted_at")
        number = int(item["id"].rpartition("_")[2])
        assert item == {"id": item["id"], "topic": "orders.created", "key": "k", "sequence": number}
        assert (answer.status_code, answer.headers["location"]) == (202, f"/events/{item['id']}")
        assert accepted_at.endswith("Z")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b'{"a": 1,   "a": NaN}'),
        ("text/plain; charset=utf-16", "hi".encode("utf-16")),
        ("application/octet-stream", bytes(range(256))),
        (None, b""),
        ("application/json", b""),
        ("application/x-www-form-urlencoded", b"a=1"),
    ],
)
async def test_the_body_is_stored_byte_for_byte_whatever_it_is(
    shared_hub: RunHub, topic: str, content_type: str | None, body: bytes
) -> None:
    """B-37: a plain event is opaque, so no body of it is wrong; also not an empty one."""
    async with shared_hub() as hub:
        headers = {"content_type": content_type} if content_type else {}
        answer = await hub.publish(topic, body, **headers)

        assert (answer.status_code, await stored(hub, topic)) == (202, [(topic, None, content_type, "{}", body)])


async def test_the_key_may_stand_in_the_query(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        answer = await hub.client.post("/topics/a/events?key=customer%2017%C3%A9", content=b"x")

        assert answer.json()["key"] == "customer 17é"


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("keys=a", "query keys: there is no such parameter; did you mean key?"),
        ("key=a&ttl=60", "query ttl: there is no such parameter; there are key, partial, matched, ignore"),
        ("keys=a&ignore=bodySHA256", "query keys: there is no such parameter; did you mean key?"),
    ],
)
async def test_a_parameter_that_publishing_does_not_know_is_refused(
    kept_hub: RunningHub, query: str, hint: str
) -> None:
    """Overlooked, it would have cost the event its order, without a word."""
    answer = await kept_hub.client.post(f"/topics/a/events?{query}", content=b"x")

    assert (kind(answer)[::2], answer.json()["detail"]) == ((400, "invalid-parameter"), hint)
    assert await stored(kept_hub) == []


async def test_what_the_url_says_that_its_sender_adds_is_overlooked(shared_hub: RunHub) -> None:
    """Also a parameter of the sender's that has a name of ours."""
    async with shared_hub() as hub:
        answers = [
            await hub.client.post(f"/topics/a/events?{query}", content=b"x")
            for query in (
                "key=a&ignore=bodySHA256&bodySHA256=0f1e",
                "ignore=key,partial&key=secret&partial=yes",
                "ignore=v&ignore=w&v=1&w=2&v=3",
            )
        ]

        assert [(answer.status_code, answer.json()["key"]) for answer in answers] == [
            (202, "a"), (202, None), (202, None),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("query", "headers", "expected"),
    [
        ("?key=", {}, (422, "invalid-key")),
        ("?key=%00", {}, (422, "invalid-key")),
        ("?key=" + "k" * 1025, {}, (422, "invalid-key")),
        ("?key=%ff", {}, (400, "invalid-parameter")),
        ("?key=a&key=b", {}, (400, "duplicate-parameter")),
        ("?key=a", {"Hookwire-Key": "b"}, (400, "duplicate-parameter")),
        ("", {"Hookwire-Key": ""}, (422, "invalid-key")),
        ("", {"Hookwire-Key": b"\xff"}, (400, "invalid-header")),
        ("", {"Hookwire-Hops": "8"}, (400, "invalid-header")),
        ("", {"Idempotency-Key": ""}, (400, "invalid-header")),
        ("", {"Idempotency-Key": "k" * 256}, (400, "invalid-header")),
        ("", {"Content-Type": "x" * 256}, (400, "invalid-header")),
        ("", {"Content-Encoding": "gzip"}, (415, "unsupported-media-type")),
    ],
)
async def test_what_surrounds_the_event_is_refused_by_name(
    kept_hub: RunningHub, query: str, headers: dict[str, Any], expected: tuple[int, str]
) -> None:
    """B-38, B-59."""
    answer = await kept_hub.client.post(f"/topics/a/events{query}", content=b"x", headers=headers)

    assert (kind(answer), await stored(kept_hub)) == ((expected[0], "application/problem+json", expected[1]), [])


@pytest.mark.parametrize("topic", ["a..b", ".a", "a b", "a%2Fb", "a%00", "ä", "x" * 250, "%2e%2e", "*", "a.%23"])
async def test_a_topic_outside_of_the_alphabet_is_refused(kept_hub: RunningHub, topic: str) -> None:
    """B-50: so no CR, LF or wildcard can reach a header, a routing key or a Kafka topic."""
    answer = await kept_hub.publish(topic, b"x")

    assert (answer.status_code, await kept_hub.sql("SELECT name FROM hookwire.topics")) in [(422, []), (404, [])]


async def test_a_key_of_the_largest_size_and_a_topic_of_the_largest_size_are_taken(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        answer = await hub.publish("t" * 249, b"x", Hookwire_Key="k" * 1024)

        assert (answer.status_code, answer.json()["topic"]) == (202, "t" * 249)


@pytest.mark.parametrize(("size", "status"), [(99, 202), (100, 202), (101, 413)])
@pytest.mark.parametrize("mode", ["plain", "chunked", "ndjson", "structured"])
async def test_an_event_may_have_as_many_bytes_as_the_setting_says(
    shared_hub: RunHub, topic: str, size: int, status: int, mode: str
) -> None:
    """B-39. In a batch each event is measured by itself."""
    text = json.dumps("x" * (size - 2)).encode()
    async with shared_hub(event_bytes_max=100) as hub:
        if mode == "chunked":
            answer = await hub.client.post(f"/topics/{topic}/events", content=pieces(text))
        elif mode == "ndjson":
            answer = await hub.publish(topic, b"1\n" + text + b"\n2", content_type=NDJSON)
        elif mode == "structured":
            body = json.dumps([{**EVENT, "data": "x" * (size - 2)}]).encode()
            answer = await hub.publish(topic, body, content_type=BATCH)
        else:
            answer = await hub.publish(topic, text)

        stored_status = 202 if await stored(hub, topic) else 413
        assert (answer.status_code, stored_status) == (status, status)


async def pieces(body: bytes) -> Any:
    for start in range(0, len(body), 40):
        yield body[start : start + 40]


async def test_ndjson_makes_an_event_of_each_line_and_answers_in_order(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        answer = await hub.publish(topic, b'{"n": 1}\r\n\n{"n":2}\n', content_type=f"{NDJSON}; charset=utf-8")

        rows = await stored(hub, topic)
        assert [row[2:] for row in rows] == [
            ("application/json", "{}", b'{"n": 1}'),
            ("application/json", "{}", b'{"n":2}'),
        ]
        first, second = (item["sequence"] for item in answer.json())
        assert second == first + 1


async def test_an_empty_batch_stores_nothing(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        answer = await hub.publish(topic, b"\n", content_type=NDJSON)

        assert (answer.status_code, answer.json(), await stored(hub, topic)) == (202, [], [])


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b"[" * 65 + b"]" * 65,
        b"1" * 5_000,
        b"NaN",
        b"-Infinity",
        b"1e400",
        b'{"a": 1, "a": 2}',
        b'"\\ud800"',
        b'"\\u0000"',
        b'{"\\u0000": 1}',
        b'"\xff"',
        b"{",
        b"{} {}",
        "[1]".encode("utf-16"),
    ],
    ids=range(14),
)
@pytest.mark.parametrize("content_type", [NDJSON, STRUCTURED, BATCH])
async def test_json_that_others_would_refuse_is_refused_at_the_door(
    kept_hub: RunningHub, line: bytes, content_type: str
) -> None:
    """B-30..B-36: a batch is all or nothing, and the answer is never a 500."""
    event = b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": %b}' % line
    body = {NDJSON: b"{}\n" + line, STRUCTURED: event, BATCH: b"[%b]" % event}[content_type]
    answer = await kept_hub.publish("a", body, content_type=content_type)

    assert (answer.status_code in (400, 422), kind(answer)[1], await stored(kept_hub)) == (
        True, "application/problem+json", [],
    )  # fmt: skip


async def test_a_batch_names_the_line_that_is_wrong(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        answer = await hub.publish("a", b"{}\n\n{", content_type=NDJSON)

        assert (kind(answer)[2], answer.json()["line"]) == ("malformed-batch", 3)


async def test_a_batch_holds_at_most_a_thousand_events(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        most = await hub.publish("a", b"1\n" * 1000, content_type=NDJSON)
        more = await hub.publish("a", b"1\n" * 1001, content_type=NDJSON)

        assert (most.status_code, len(most.json()), kind(more)[::2]) == (202, 1000, (400, "malformed-batch"))


@pytest.mark.parametrize("value", [b"0", b"0.5", b"{}"], ids=["integers", "floats", "objects"])
@pytest.mark.parametrize("partial", ["false", "true"])
async def test_a_batch_has_one_budget_of_values_for_all_its_events(
    kept_hub: RunningHub, value: bytes, partial: str
) -> None:
    """FS-06: each line of 4 MB kept to its own limit, and together they held the event loop for half a second."""
    line = b"[%b]\n" % b",".join([value] * 30_000)
    path = f"/topics/a/events?partial={partial}"
    answer = await kept_hub.client.post(path, content=line * 10, headers={"Content-Type": NDJSON})

    assert (kind(answer)[::2], await stored(kept_hub)) == ((400, "malformed-batch"), [])


async def test_commas_in_texts_are_no_values(shared_hub: RunHub, topic: str) -> None:
    """FS-06."""
    line = json.dumps("," * 30_000).encode() + b"\n"
    async with shared_hub() as hub:
        answer = await hub.publish(topic, line * 20, content_type=NDJSON)

        assert (answer.status_code, len(await stored(hub, topic))) == (202, 20)


@pytest.mark.parametrize(
    ("kibibytes", "content_type", "parser", "in_loop"),
    [
        (255, NDJSON, "app.web.publishing.ingest.loads", True),
        (257, NDJSON, "app.web.publishing.ingest.loads", False),
        (255, STRUCTURED, "event.json_format.loads_members", True),
        (257, STRUCTURED, "event.json_format.loads_members", False),
    ],
)
async def test_a_large_body_is_parsed_beside_the_event_loop(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch, kibibytes: int, content_type: str, parser: str, in_loop: bool
) -> None:  # fmt: skip
    """FS-06, T13."""
    threads: list[threading.Thread] = []
    module, _, name = parser.rpartition(".")
    real = getattr(sys.modules[module], name)

    def spied(data: bytes) -> object:
        threads.append(threading.current_thread())
        return real(data)

    monkeypatch.setattr(parser, spied)
    async with running_hub() as hub:
        answer = await hub.publish(
            "a", json.dumps({**EVENT, "data": "x" * kibibytes * 1024}).encode(), content_type=content_type
        )

        assert (answer.status_code, [thread is threading.main_thread() for thread in threads]) == (202, [in_loop])


async def test_cloudevents_are_recognised_in_binary_mode(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        attributes = {f"ce_{name}": value for name, value in EVENT.items()}
        await hub.publish(topic, b"<x/>", content_type="text/xml", **attributes)

        [(_, _, content_type, headers, payload)] = await stored(hub, topic)
        assert (content_type, json.loads(headers), payload) == (
            "text/xml", {f"ce-{name}": value for name, value in EVENT.items()}, b"<x/>",
        )  # fmt: skip


async def test_cloudevents_are_recognised_in_structured_mode(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        body = json.dumps({**EVENT, "data": {"order": 1}}).encode()
        await hub.publish(topic, body, content_type=STRUCTURED)

        [(_, _, content_type, headers, payload)] = await stored(hub, topic)
        assert (content_type, json.loads(headers), json.loads(payload)) == (
            "application/json", {f"ce-{name}": value for name, value in EVENT.items()}, {"order": 1},
        )  # fmt: skip


async def test_cloudevents_are_recognised_in_batch_mode(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        body = json.dumps([{**EVENT, "data": 1}, {**EVENT, "id": "2", "data": 2}]).encode()
        answer = await hub.publish(topic, body, content_type=BATCH)

        assert [row[4] for row in await stored(hub, topic)] == [b"1", b"2"]
        assert len(answer.json()) == 2


@pytest.mark.parametrize(
    "changes", [{"id": ""}, {"source": None}, {"specversion": "2.0"}, {"time": "0000-00-00T00:00:00+99:99"}]
)
async def test_a_cloudevent_with_a_bad_attribute_is_refused(kept_hub: RunningHub, changes: dict[str, Any]) -> None:
    """B-41."""
    answer = await kept_hub.publish("a", json.dumps({**EVENT, **changes}).encode(), content_type=STRUCTURED)

    assert (answer.status_code in (400, 422), kind(answer)[2], await stored(kept_hub)) == (
        True, "invalid-cloudevent", [],
    )  # fmt: skip


async def test_a_repeat_with_the_same_idempotency_key_gets_the_first_answer(shared_hub: RunHub, topic: str) -> None:
    """EC-H03. What only traces the request may differ."""
    async with shared_hub() as hub:
        first = await hub.publish(topic, b"x", idempotency_key=topic, traceparent="00-1")
        again = await hub.publish(topic, b"x", idempotency_key=topic, traceparent="00-2")

        assert (again.status_code, again.json()) == (202, first.json())
        assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
        assert len(await stored(hub, topic)) == 1


@pytest.mark.parametrize(
    "change",
    [{"content": b"y"}, {"Hookwire_Key": "k"}, {"content_type": "text/plain"}, {"ce_type": "other"}],
    ids=lambda change: next(iter(change)),
)
async def test_an_idempotency_key_does_not_serve_another_request(
    shared_hub: RunHub, topic: str, change: dict[str, Any]
) -> None:
    """B-40, FT-21."""
    event = {"content": b"x", "idempotency_key": topic, **{f"ce_{name}": value for name, value in EVENT.items()}}
    async with shared_hub() as hub:
        await hub.publish(topic, **event)
        answer = await hub.publish(topic, **{**event, **change})

        assert (kind(answer)[::2], len(await stored(hub, topic))) == ((422, "idempotency-key-reused"), 1)


async def test_an_idempotency_key_of_a_batch_serves_no_single_event(shared_hub: RunHub, topic: str) -> None:
    """B-40: the other way round as well."""
    async with shared_hub() as hub:
        await hub.publish(topic, b"1\n2", content_type=NDJSON, idempotency_key=topic)
        single = await hub.publish(topic, b"1", idempotency_key=topic)
        shorter = await hub.publish(topic, b"1", content_type=NDJSON, idempotency_key=topic)
        same = await hub.publish(topic, b"1\n2", content_type=NDJSON, idempotency_key=topic)

        assert [a.status_code for a in (single, shorter, same)] == [422, 422, 202]
        assert (same.headers["idempotency-replayed"], len(await stored(hub, topic))) == ("true", 2)


async def test_concurrent_requests_with_one_idempotency_key_store_one_event(shared_hub: RunHub, topic: str) -> None:
    async with shared_hub() as hub:
        answers = await asyncio.gather(*(hub.publish(topic, b"x", idempotency_key=topic) for _ in range(20)))

        ids = {answer.json()["id"] for answer in answers}
        replayed = [answer.headers.get("idempotency-replayed") for answer in answers].count("true")
        assert (len(ids), replayed, len(await stored(hub, topic))) == (1, 19, 1)


async def test_without_automatic_topics_an_unknown_topic_is_refused(running_hub: RunHub) -> None:
    async with running_hub(topics_auto_create=False) as hub:
        unknown = await hub.publish("a", b"x")
        await hub.client.put("/topics/a/settings", json={})
        known = await hub.publish("a", b"x")

        assert (kind(unknown)[::2], known.status_code) == ((404, "unknown-topic"), 202)


async def test_a_held_key_delays_only_its_own_events(running_hub: RunHub) -> None:
    """RR-03: then 503 with Retry-After, and nothing is stored."""
    async with running_hub() as hub:
        foreign = await asyncpg.connect(hub.database_url)
        async with foreign.transaction():
            await foreign.execute("SELECT hookwire.publish('a', 'x'::text, key => 'held')")
            held = asyncio.create_task(hub.publish("a", b"y", Hookwire_Key="held"))
            free = await hub.publish("a", b"z", Hookwire_Key="free")
            refused = await held
        await foreign.close()

        assert (free.status_code, kind(refused)[::2], refused.headers["retry-after"]) == (202, (503, "busy"), "1")
        assert {row[4] for row in await stored(hub)} == {b"x", b"z"}


async def test_publishing_where_nobody_listens_says_so(shared_hub: RunHub, receiver: Receiver) -> None:
    """The moment somebody subscribes it is no longer said."""
    async with shared_hub() as hub:
        unheard = await hub.publish("orders.created")
        await hub.subscribe("orders.*", receiver.callback)
        await lasts(0.02)  # a question in a hundredth of a second
        heard = await hub.publish("orders.created")

        assert unheard.headers["hookwire-notice"] == (
            "nobody listens: no subscription matches this topic, and it goes to no configured broker"
        )
        assert "hookwire-notice" not in heard.headers


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sinks": []}, "nobody listens: this topic is routed to no sink"),
        ({"sinks": ["kafka"]}, "nobody listens yet: this topic is routed to kafka, which is not configured"),
    ],
)
async def test_the_notice_knows_the_routing(shared_hub: RunHub, settings: dict[str, Any], words: str) -> None:
    async with shared_hub() as hub:
        await hub.client.put("/topics/a/settings", json=settings)
        answer = await hub.publish("a")

        assert answer.headers["hookwire-notice"] == words


async def test_a_topic_that_goes_to_a_broker_needs_no_subscription(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        await hub.sql("UPDATE hookwire.sinks SET configured = true WHERE name = 'amqp'")
        answer = await hub.publish("a")

        assert (answer.status_code, "hookwire-notice" in answer.headers) == (202, False)


async def test_every_method_but_post_is_refused_with_what_is_allowed(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        answer = await hub.client.get("/topics/a/events")

        assert (kind(answer), answer.headers["allow"]) == (
            (405, "application/problem+json", "method-not-allowed"), "POST",
        )  # fmt: skip


async def test_a_lifetime_is_kept_with_the_event(shared_hub: RunHub, topic: str) -> None:
    """WH-A04."""
    async with shared_hub() as hub:
        await hub.publish(topic, hookwire_ttl="60", hookwire_retry="never")

        [(headers,)] = await hub.sql("SELECT headers FROM hookwire.events WHERE topic = $1", topic)
        assert json.loads(headers) == {"hookwire-ttl": "60", "hookwire-retry": "never"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("hookwire_ttl", "0"), ("hookwire_ttl", "-1"), ("hookwire_ttl", "1.5"), ("hookwire_ttl", "31536001"),
     ("hookwire_ttl", "9" * 5000), ("hookwire_retry", "often")],
    ids=range(6),
)  # fmt: skip
async def test_a_bad_lifetime_is_refused(kept_hub: RunningHub, name: str, value: str) -> None:
    """WH-A04."""
    assert kind(await kept_hub.publish("a", **{name: value}))[::2] == (400, "invalid-header")


async def test_a_partial_batch_stores_what_it_can_and_tells_of_each_line(shared_hub: RunHub, topic: str) -> None:
    """WH-A02: results in the order of the lines; a repeat with the same Idempotency-Key stores nothing again."""
    body = b'{"n": 1}\n{"n": \n\n{"n": 3}\n"' + b"x" * 200 + b'"\n'
    async with shared_hub(event_bytes_max=100) as hub:
        url = f"/topics/{topic}/events?partial=true"
        named = {"Content-Type": "application/x-ndjson", "Idempotency-Key": topic}
        answers = [await hub.client.post(url, content=body, headers=named) for _ in "12"]
        payloads = [row[4] for row in await stored(hub, topic)]

        first = answers[0].json()
        assert [item.get("error", {}).get("status") for item in first] == [None, 400, None, 413]
        assert (payloads, answers[1].json()) == ([b'{"n": 1}', b'{"n": 3}'], first)
        assert first[1]["error"]["detail"].startswith("line 2: ")


async def test_the_page_of_a_refused_line_does_not_say_that_nothing_was_stored(shared_hub: RunHub, topic: str) -> None:
    """GH-01: who obeyed the page of malformed-batch sent the whole batch again, and stored the others twice."""
    body = b'{"n": 1}\n{"n": \n"' + b"x" * 200 + b'"\n'
    async with shared_hub(event_bytes_max=100) as hub:
        path = f"/topics/{topic}/events?partial=true"
        answer = await hub.client.post(path, content=body, headers={"Content-Type": NDJSON})
        slugs = [item["error"]["type"].rpartition("/")[2] for item in answer.json() if "error" in item]

        assert (slugs, len(await stored(hub, topic))) == (["line-refused"] * 2, 1)
        assert not NOTHING_STORED.search(KINDS["line-refused"].cause)


@pytest.mark.parametrize("query", ["", "?partial=true"], ids=["whole", "partial"])
@pytest.mark.parametrize(
    "body", [b"{}\n" * 1001, b"[", b"[%b]\n" % b",".join([b"0"] * 30_000) * 10, b'"' + b"x" * 200 + b'"'],
    ids=["too many", "no JSON", "too many values", "too large"],
)  # fmt: skip
async def test_a_page_that_says_nothing_was_stored_is_right(
    shared_hub: RunHub, topic: str, query: str, body: bytes
) -> None:
    """GH-01: all paths on which a whole batch is refused."""
    async with shared_hub(event_bytes_max=100) as hub:
        answer = await hub.client.post(f"/topics/{topic}/events{query}", content=body, headers={"Content-Type": NDJSON})

        assert NOTHING_STORED.search(KINDS[kind(answer)[2]].cause), kind(answer)
        assert await stored(hub, topic) == []


async def test_the_notice_is_asked_while_the_event_is_stored(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GH-04: it was asked before, for up to a quarter of a second of every publish."""
    storing = asyncio.Event()
    publish = Publisher.publish

    async def asked(_self: Notices, _topic: str) -> str:
        try:
            async with asyncio.timeout(5):
                await storing.wait()
        except TimeoutError:
            return "before"
        return "while"

    async def watched(self: Publisher, *arguments: Any) -> Any:
        storing.set()
        return await publish(self, *arguments)

    monkeypatch.setattr(Notices, "_of", asked)
    monkeypatch.setattr(Publisher, "publish", watched)
    async with running_hub() as hub:
        assert (await hub.publish("a")).headers["hookwire-notice"] == "while"


async def test_a_notice_that_takes_long_beside_a_slow_commit_is_given(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine both take long. The notice may slow a publish, but only by its patience."""
    monkeypatch.setattr("app.web.publishing.notice._PATIENCE_SECONDS", 0.0)
    known = asyncio.Event()
    publish = Publisher.publish

    async def asked(_self: Notices, _topic: str) -> str:
        known.set()
        return "nobody"

    async def slow(self: Publisher, *arguments: Any) -> Any:
        stored = await publish(self, *arguments)
        await known.wait()
        return stored

    monkeypatch.setattr(Notices, "_of", asked)
    monkeypatch.setattr(Publisher, "publish", slow)
    async with running_hub() as hub:
        assert (await hub.publish("a")).headers["hookwire-notice"] == "nobody"


@pytest.mark.parametrize(
    ("query", "content_type", "body", "expected"),
    [
        ("partial=true", "application/json", b"{}", (400, "invalid-parameter")),
        ("partial=maybe", "application/x-ndjson", b"{}", (400, "invalid-parameter")),
        ("partial=true&partial=true", "application/x-ndjson", b"{}", (400, "invalid-parameter")),
        ("partial=true", "application/x-ndjson", b"{\n[", (400, "malformed-batch")),
        ("partial=false", "application/x-ndjson", b"{}\n[", (400, "malformed-batch")),
    ],
    ids=range(5),
)
async def test_a_partial_batch_that_stores_nothing_is_refused(
    kept_hub: RunningHub, query: str, content_type: str, body: bytes, expected: tuple[int, str]
) -> None:
    """WH-A02: and without partial a batch is all or nothing."""
    answer = await kept_hub.client.post(
        f"/topics/a/events?{query}", content=body, headers={"Content-Type": content_type}
    )

    assert (kind(answer)[::2], await kept_hub.sql("SELECT id FROM hookwire.events")) == (expected, [])


async def test_the_answer_names_who_gets_the_event_when_it_is_asked(running_hub: RunHub) -> None:
    """WH-A03: by topic, pattern and filter; what nobody wants is stored all the same (WH-10)."""
    async with running_hub() as hub:
        large = {"data": {"amount": {"$gte": 100}}}
        wanted = [
            await hub.subscribe("orders.created", CALLBACK),
            await hub.subscribe("orders.*", CALLBACK, filter=large),
        ]
        await hub.subscribe("orders.*", CALLBACK, filter={"data": {"amount": {"$lt": 100}}})
        await hub.subscribe("orders.created", CALLBACK, state="disabled")
        some = await hub.client.post("/topics/orders.created/events?matched=true", json={"amount": 120})
        nobody = await hub.client.post("/topics/parcels/events?matched=true", json={})
        unasked = await hub.client.post("/topics/orders.created/events", json={"amount": 120})

        assert some.json()["matched"] == [one["id"] for one in wanted]
        assert (nobody.status_code, nobody.json()["matched"], "matched" in unasked.json()) == (202, [], False)
        assert (await hub.client.get(nobody.headers["location"])).status_code == 200


async def test_who_matches_is_not_told_of_a_batch(shared_hub: RunHub) -> None:
    async with shared_hub() as hub:
        answer = await hub.client.post(
            "/topics/a/events?matched=true", content=b"{}\n", headers={"Content-Type": "application/x-ndjson"}
        )

        assert kind(answer)[::2] == (400, "invalid-parameter")


@example(b"key=a.b~7_-", None)
@example(b"key=ab", "of the header")
@given(st.text("key=&ab7%41+.~-_é\n", max_size=12).map(str.encode), st.sampled_from([None, "of the header"]))
def test_a_query_with_a_plain_key_is_read_as_any_other(query: bytes, key: str | None) -> None:
    """ADR 33: the short way for the usual query takes and refuses what the parser of all queries does."""

    def read() -> object:
        envelope = envelopes.Envelope("a", key=key)
        try:
            envelopes.take_query(envelope, query)
        except Problem as problem:
            return problem.slug, problem.detail
        return envelope

    with pytest.MonkeyPatch.context() as patch:
        found = read()
        patch.setattr(envelopes, "_PLAIN_KEY", re.compile(rb"(?!)"))
        assert found == read()
