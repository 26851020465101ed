"""POST /topics/{topic}/batch: each event is stored by itself, and the answer says what became of it (GU-11)."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.web.problem import Problem
from app.web.publishing.envelope import Envelope
from app.web.publishing.event_line import read_line
from tests.app.conftest import RunHub, RunningHub

LINES = "application/vnd.hookwire.events+ndjson"
OWN = {"own": "r", "hookwire-ttl": "9"}
CLOUDEVENT = {"ce-id": "1", "ce-source": "/s", "ce-specversion": "1.0", "ce-type": "t"}


async def send(hub: RunningHub, *lines: dict[str, Any] | bytes, path: str = "/topics/a/batch", **headers: str) -> Any:
    body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    named = {"Content-Type": LINES, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return await hub.client.post(path, content=body, headers=named)


def outcomes(answer: Any) -> tuple[int, list[str]]:
    return answer.status_code, [item["outcome"] for item in answer.json()]


async def test_each_line_has_its_own_outcome(running_hub: RunHub) -> None:
    async with running_hub(event_bytes_max=100) as hub:
        first = await send(hub, {"idempotency_key": "1", "data": 1}, {"idempotency_key": "2", "key": "k", "data": 2})
        again = await send(
            hub,
            {"idempotency_key": "1", "data": 1},
            {"idempotency_key": "2", "key": "k", "data": "another"},
            b"no JSON",
            {"data": "x" * 200},
            {"key": "k", "data": 3},
            {"idempotency_key": "5", "data": 5},
        )
        events = await hub.sql("SELECT key, convert_from(payload, 'UTF8') FROM hookwire.events ORDER BY id")

        assert outcomes(first) == (202, ["stored", "stored"])
        assert outcomes(again) == (207, ["replayed", "conflict", "error", "error", "stored", "stored"])
        assert again.json()[0]["id"] == first.json()[0]["id"]
        assert [item["error"]["type"].rpartition("/")[2] for item in again.json() if "error" in item] == [
            "idempotency-key-reused", "line-refused", "line-refused",
        ]  # fmt: skip
        assert sorted(events, key=str) == [("k", "2"), ("k", "3"), (None, "1"), (None, "5")]


async def test_an_event_of_a_batch_is_a_repeat_of_the_same_event_alone(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        alone = await hub.publish(
            "a", b'{"n": 1.10}', Content_Type="application/json", Idempotency_Key="i", Hookwire_Key="k"
        )
        batch = await send(hub, b'{"data": {"n": 1.10}, "key": "k", "idempotency_key": "i"}', path="/topics/a/events")
        element = [{"data_base64": base64.b64encode(b'{"n": 1.10}').decode(), "content_type": "application/json"}]
        listed = await hub.client.post("/topics/a/batch", json=[{**element[0], "key": "k", "idempotency_key": "i"}])

        assert (outcomes(batch), outcomes(listed)) == ((202, ["replayed"]), (202, ["replayed"]))
        assert {batch.json()[0]["id"], listed.json()[0]["id"]} == {alone.json()["id"]}


async def test_a_key_that_is_held_keeps_only_its_own_lines_back(running_hub: RunHub) -> None:
    """The later line of the key is not stored either, though nothing is wrong with it: a repeat keeps the order."""
    async with running_hub() as hub:
        await send(hub, {"data": 0, "idempotency_key": "used"})
        connection = await asyncpg.connect(hub.database_url)
        async with asyncio.timeout(60), connection.transaction():
            await connection.execute("SELECT hookwire.publish('a', '1'::jsonb, key => 'held')")
            answer = await send(
                hub, {"key": "held", "data": 2}, {"key": "free", "data": 3}, {"key": "held", "data": 4}, {"data": 5}
            )
        await connection.close()

        assert outcomes(answer) == (207, ["error", "stored", "error", "stored"])
        assert {item["error"]["status"] for item in answer.json() if "error" in item} == {503}


async def test_a_refused_line_does_not_change_the_order_of_its_key(running_hub: RunHub) -> None:
    lines = [{"key": "k", "data": n, "idempotency_key": str(n)} for n in range(20)]
    async with running_hub() as hub:
        await send(hub, {"key": "k", "data": "other", "idempotency_key": "7"})
        answer = await send(hub, *lines)
        stored = await hub.sql("SELECT convert_from(payload, 'UTF8') FROM hookwire.events ORDER BY id OFFSET 1")

        assert (outcomes(answer)[1].index("conflict"), [n for (n,) in stored]) == (
            7, [str(n) for n in range(20) if n != 7],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "content", "expected"),
    [
        ({"Content-Type": "text/plain"}, b"x", 415),
        ({}, b"x", 415),
        ({"Content-Type": LINES, "Idempotency-Key": "k"}, b"{}", 400),
        ({"Content-Type": LINES}, b"{}\n" * 1001, 400),
        ({"Content-Type": "application/json"}, b"[" + b"{}," * 1000 + b"{}]", 400),
        ({"Content-Type": "application/json"}, b"{}", 400),
        ({"Content-Type": "application/json"}, b"[1]", 400),
    ],
)
async def test_a_request_that_is_no_batch_stores_nothing(
    kept_hub: RunningHub, headers: dict[str, str], content: bytes, expected: int
) -> None:
    answer = await kept_hub.client.post("/topics/a/batch", content=content, headers=headers)

    assert (answer.status_code, await kept_hub.sql("SELECT id FROM hookwire.events")) == (expected, [])


@pytest.mark.parametrize(
    ("line", "content_type", "payload", "headers"),
    [
        (b'{"data":  {"a" : 1.10} }', "application/json", b'{"a" : 1.10}', OWN),
        (b'{"data":null}', "application/json", b"null", OWN),
        (b"{}", None, b"", OWN),
        (b'{"data":"h\\u00e9","content_type":"text/plain"}', "text/plain", "hé".encode(), OWN),
        (b'{"data_base64":"AP8="}', None, b"\x00\xff", OWN),
        (
            b'{"data":1,"headers":{"own":"l","hookwire-ttl":"5"}}', "application/json", b"1",
            {"own": "l", "hookwire-ttl": "5"},
        ),
        (json.dumps({"data": 1, "headers": CLOUDEVENT}).encode(), "application/json", b"1", OWN | CLOUDEVENT),
        (b'{"headers":{"hookwire-tombstone":"true"}}', None, b"", OWN | {"hookwire-tombstone": "true"}),
    ],
)  # fmt: skip
def test_a_line_says_what_a_request_would(
    line: bytes, content_type: str | None, payload: bytes, headers: dict[str, str]
) -> None:
    request = Envelope("a", key="k", own={"own": "r"}, carried={"hookwire-ttl": "9"})
    draft = read_line(request, 1, line)

    assert (draft.key, draft.content_type, draft.payload, draft.headers) == ("k", content_type, payload, headers)


@example('a"b', "k", [1])
@example("i", None, {"data": {"idempotency_key": "x"}})
@given(st.text(max_size=6), st.none() | st.text(max_size=6), st.recursive(st.none() | st.text(), st.lists))
def test_a_usual_line_is_read_as_any_other(name: str, key: str | None, data: Any) -> None:
    """The short way takes and refuses what the whole reader does."""
    members = {"idempotency_key": name, **({} if key is None else {"key": key}), "data": data}

    def read(line: str) -> Any:
        try:
            return read_line(Envelope("a"), 1, line.encode("utf-8", "surrogatepass"))
        except Problem as problem:
            return problem.status

    usual = json.dumps(members, separators=(",", ":"), ensure_ascii=False)
    assert read(usual) == read(" " + usual)


@pytest.mark.parametrize(
    "line",
    [
        b'"text"', b"[]", b'{"dat":1}', b'{"key":1}', b'{"key":""}', b'{"idempotency_key":""}',
        b'{"idempotency_key":"\\n"}', b'{"data":1,"data_base64":""}', b'{"data_base64":"!"}',
        b'{"data":1,"content_type":"text/plain"}', b'{"content_type":"a\\nb"}', b'{"headers":[]}',
        b'{"headers":{"a":1}}',
        b'{"headers":{"cookie":"x"}}', b'{"headers":{"a":"x\\ny"}}', b'{"headers":{"hookwire-ttl":"no"}}',
        b'{"headers":{"ce-id":"1"}}', b'{"headers":{"webhook-id":"1"}}', b'{"key":"\\ud800"}', b'{"key":"\\u0000"}',
        b'{"headers":{"hookwire-tombstone":"true"},"data":1}', b'{"key":"a","key":"b"}',
        b'{"content_type":"application/cloudevents-batch+json","data_base64":"W10="}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(Problem) as refusal:
        read_line(Envelope("a", key="k"), 3, line)

    assert (refusal.value.slug, refusal.value.detail[:8]) == ("line-refused", "line 3: ")
