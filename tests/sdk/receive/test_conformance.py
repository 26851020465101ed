"""One suite over all receivers: what is verified, what is read, what is answered, what is run how often."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from hookwire.receive import DatabaseSeen, Event, Gone, Later, Seen
from hookwire.testing import sign
from tests.sdk.receive.dying import DIED
from tests.sdk.receive.shapes import SHAPES, Shape
from webhooks.signature import HmacKey, hub_signature, new_ed25519_key, webhook_headers

NOW = 1_795_242_667
SECRET, OLD, OTHER = ("whsec_" + base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))
EVENT = Event("evt_x_42", "orders.created", "kéy", 42, None, "application/json", {}, b'{"order": 1}')
WAIT_SECONDS = 60


@pytest.fixture(params=SHAPES)
def make(request: pytest.FixtureRequest) -> Callable[..., Shape]:
    def made(**options: Any) -> Shape:
        return SHAPES[request.param](**{"secrets": [SECRET], "clock": lambda: NOW, **options})

    return made


def taken(shape: Shape) -> list[Event]:
    events: list[Event] = []
    shape.receiver.on("#")(events.append)
    return events


async def post(
    shape: Shape, event: Event = EVENT, secret: str = SECRET, at: int = NOW, url: str = "/one", **more: str
) -> int:
    headers = sign(event, secret, now_seconds=at) | {name.replace("_", "-"): value for name, value in more.items()}
    answer = await shape.send("POST", url, headers, event.body)
    return answer.status_code


async def test_a_delivery_reaches_its_handler_as_it_was_published(make: Callable[..., Shape]) -> None:
    """FD-11 FD-13."""
    shape = make()
    events = taken(shape)
    answer = await shape.send("POST", "/one", sign(EVENT, SECRET, now_seconds=NOW), EVENT.body)

    assert (answer.status_code, answer.content) == (204, b"")
    assert [replace(event, headers={}) for event in events] == [EVENT]
    assert (events[0].data, events[0].headers["webhook-id"]) == ({"order": 1}, EVENT.id)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"webhook-signature": "v1,AAAA"}, 401),
        ({"webhook-signature": ""}, 401),
        ({"webhook-id": "evt_x_43"}, 401),
        ({"webhook-timestamp": str(NOW - 1)}, 401),
        ({"webhook-timestamp": "now"}, 401),
        ({"webhook-signature": " ".join(["v1,AAAA"] * 30)}, 401),
        ({"x-hub-signature": "sha256=00"}, 204),
        ({"hookwire-topic": "forged.topic"}, 204),
    ],
    ids=["forged", "missing", "other id", "other time", "no time", "too many", "other family", "unsigned header"],
)
async def test_a_forged_delivery_is_refused_before_anything_is_parsed(
    make: Callable[..., Shape], change: dict[str, str], status: int
) -> None:
    """FD-12: the headers beside the signature are the hub's, but the signature does not cover them."""
    shape = make()
    events = taken(shape)
    body = b"[" * 100_000 if status == 401 else EVENT.body
    headers = sign(replace(EVENT, body=EVENT.body), SECRET, now_seconds=NOW) | change
    answer = await shape.send("POST", "/one", headers, body)

    assert (answer.status_code, len(events)) == (status, int(status == 204))


@pytest.mark.parametrize(
    ("secrets", "secret", "at", "body", "expected"),
    [
        ([SECRET], OTHER, NOW, EVENT.body, 401),
        ([SECRET, OLD], OLD, NOW, EVENT.body, 204),
        ([OLD, SECRET], SECRET, NOW, EVENT.body, 204),
        ([SECRET], SECRET, NOW - 299, EVENT.body, 204),
        ([SECRET], SECRET, NOW + 299, EVENT.body, 204),
        ([SECRET], SECRET, NOW - 301, EVENT.body, 401),
        ([SECRET], SECRET, NOW + 301, EVENT.body, 401),
        ([SECRET], SECRET, NOW, b"\xff\x00", 204),
        ([SECRET], SECRET, NOW, b"", 204),
    ],
    ids=["wrong", "rotated", "new", "old enough", "young enough", "replayed", "skewed", "not UTF-8", "empty"],
)
async def test_secrets_times_and_bytes_decide(
    make: Callable[..., Shape], secrets: list[str], secret: str, at: int, body: bytes, expected: int
) -> None:
    """FD-12."""
    shape = make(secrets=secrets)
    taken(shape)

    assert await post(shape, replace(EVENT, body=body), secret, at) == expected


async def test_what_the_hub_signs_fits_with_two_keys_and_with_a_public_key(make: Callable[..., Shape]) -> None:
    """FD-12: v1 and v1a, signed by the hub's own code during a rotation."""
    pair = new_ed25519_key()
    keys = [HmacKey(b"n" * 32), pair, HmacKey(bytes([1]) * 32)]
    headers = webhook_headers(keys, EVENT.id, NOW, EVENT.body)
    answers = []
    for secret in (SECRET, pair.verifier.text()):
        shape = make(secrets=[secret])
        taken(shape)
        answers.append((await shape.send("POST", "/one", dict(headers), EVENT.body)).status_code)
    shape = make(secrets=[new_ed25519_key().verifier.text()])

    assert (answers, (await shape.send("POST", "/one", dict(headers), EVENT.body)).status_code) == ([204, 204], 401)


async def test_a_websub_signature_is_taken_where_its_secret_is_known(make: Callable[..., Shape]) -> None:
    """FD-12."""
    shape = make(secrets=(), hub_secrets=["one", "two"])
    events = taken(shape)
    link = '<https://hub/hub>; rel="hub", <https://p/feed>; rel="self"'
    signed = {"x-hub-signature": hub_signature(b"two", b"feed", "sha256"), "link": link, "content-type": "text/xml"}
    statuses = [(await shape.send("POST", "/one", signed, body)).status_code for body in (b"feed", b"feed", b"food")]

    assert (statuses, [(event.topic, event.data) for event in events]) == (
        [204, 204, 401],
        [("https://p/feed", "feed")],
    )


async def test_a_cut_body_and_one_that_is_too_large_are_refused(make: Callable[..., Shape]) -> None:
    """FD-13: 413 before the signature, because the rest is not read."""
    shape = make(bytes_max=100)
    events = taken(shape)
    cut = await shape.send("POST", "/one", sign(EVENT, SECRET, now_seconds=NOW), EVENT.body[:-1])
    large = await post(shape, replace(EVENT, body=b"x" * 101))

    assert (cut.status_code, large, events) == (401, 413, [])


@pytest.mark.parametrize("media_type", ["application/cloudevents+json", "application/cloudevents-batch+json"])
@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"id": 1}', b"\xff", b'[{"id":"1"}]', b"[" * 100_000])
async def test_a_signed_body_that_is_no_cloudevent_is_refused(
    make: Callable[..., Shape], media_type: str, body: bytes
) -> None:
    shape = make()

    assert await post(shape, replace(EVENT, content_type=media_type, body=body)) == 400


async def test_a_delivery_without_a_content_type_is_taken_as_bytes(make: Callable[..., Shape]) -> None:
    """FD-11."""
    shape = make()
    events = taken(shape)
    status = await post(shape, replace(EVENT, content_type=None))

    assert (status, [(event.content_type, event.data) for event in events]) == (204, [(None, EVENT.body)])


async def test_structured_binary_and_batch_carry_the_same_event(make: Callable[..., Shape]) -> None:
    """FD-11 FD-14: each event of a batch is noted alone, so a batch with one new event runs that one."""
    shape = make()
    events = taken(shape)
    cloudevent = {
        "specversion": "1.0", "id": "evt_x_1", "source": "https://hub/topics/orders.created", "type": "t",
        "partitionkey": "ada", "datacontenttype": "application/json", "data": {"order": 1},
    }  # fmt: skip
    second = cloudevent | {"id": "7", "source": "/shop", "data_base64": "AP8=", "datacontenttype": "x/y"}
    del second["data"]
    batch = "application/cloudevents-batch+json"
    for number, (content_type, body) in enumerate([
        ("application/cloudevents+json", cloudevent), (batch, [cloudevent, second]), (batch, [second, cloudevent]),
    ]):  # fmt: skip
        event = replace(EVENT, id="evt_x_1" if number == 0 else f"bat_{number}", content_type=content_type, key=None)
        headers = sign(replace(event, body=json.dumps(body).encode(), sequence=None), SECRET, now_seconds=NOW)
        if content_type == batch:
            del headers["hookwire-topic"]
        assert (await shape.send("POST", "/one", headers, json.dumps(body).encode())).status_code == 204

    assert [(event.id, event.topic, event.key, event.data) for event in events] == [
        ("evt_x_1", "orders.created", "ada", {"order": 1}), ("/shop 7", "", "ada", b"\x00\xff"),
    ]  # fmt: skip


async def test_a_repeat_is_taken_once_on_each_route_and_a_marked_replay_again(make: Callable[..., Shape]) -> None:
    """FD-14: two subscriptions at one application are two routes."""
    shape = make()
    events = taken(shape)
    statuses = [await post(shape, url=url) for url in ("/one", "/one", "/two", "/one")]
    statuses.append(await post(shape, replace(EVENT, is_replay=True)))

    assert (statuses, [event.is_replay for event in events]) == ([204] * 5, [False, False, True])


async def test_an_overtaken_delivery_comes_with_its_own_sequence(make: Callable[..., Shape]) -> None:
    """FD-14: the receiver neither drops nor sorts what is re-ordered; its handler sees it."""
    shape = make()
    events = taken(shape)
    statuses = [await post(shape, replace(EVENT, id=f"evt_x_{number}", sequence=number)) for number in (43, 42)]

    assert (statuses, [event.sequence for event in events]) == ([204, 204], [43, 42])


async def test_a_handler_that_fails_is_run_again_and_its_error_stays_inside(
    make: Callable[..., Shape], caplog: pytest.LogCaptureFixture
) -> None:
    """FD-13 FD-14: noted only after success."""
    shape = make()
    runs: list[str] = []

    @shape.receiver.on("orders.*")
    def order(event: Event) -> None:
        runs.append(event.id)
        if len(runs) == 1:
            raise RuntimeError("secret detail")

    headers = sign(EVENT, SECRET, now_seconds=NOW)
    answers = [await shape.send("POST", "/one", headers, EVENT.body) for _ in "123"]

    assert ([answer.status_code for answer in answers], len(runs)) == ([500, 204, 204], 2)
    assert ("secret detail" in answers[0].text, "secret detail" in caplog.text) == (False, True)


@pytest.mark.parametrize(
    ("raised", "status", "retry_after"), [(Gone(), 410, None), (Later(90), 503, "90"), (ValueError(), 500, None)]
)
async def test_a_handler_ends_or_postpones_by_what_it_raises(
    make: Callable[..., Shape], raised: Exception, status: int, retry_after: str | None
) -> None:
    """FD-13."""
    shape = make()

    @shape.receiver.on()
    def handler(_: Event) -> None:
        raise raised

    answer = await shape.send("POST", "/one", sign(EVENT, SECRET, now_seconds=NOW), EVENT.body)

    assert (answer.status_code, answer.headers.get("retry-after")) == (status, retry_after)


class OfALibrary(BaseException):
    """As gevent's Timeout and pytest's outcomes are."""


@pytest.mark.parametrize("raised", [StopIteration(), OfALibrary(), asyncio.CancelledError()], ids=repr)
async def test_a_delivery_is_answered_however_its_handler_ends(
    make: Callable[..., Shape], raised: BaseException
) -> None:
    """GB-03, GB-04: on Python 3.11 a StopIteration out of a thread kept the request for ever, and each repeat 503."""
    shape = make()
    runs: list[str] = []

    @shape.receiver.on()
    def handler(event: Event) -> None:
        runs.append(event.id)
        if len(runs) == 1:
            raise raised

    async with asyncio.timeout(WAIT_SECONDS):
        statuses = [await post(shape), await post(shape)]

    assert (statuses, len(runs)) == ([500, 204], 2)


async def test_a_repeat_while_the_first_still_runs_is_asked_to_come_later(make: Callable[..., Shape]) -> None:
    """FD-14: never lost, and never run twice at once."""
    shape = make()
    begun, goes_on, runs = threading.Event(), threading.Event(), []

    @shape.receiver.on()
    def handler(event: Event) -> None:
        runs.append(event.id)
        begun.set()
        assert goes_on.wait(WAIT_SECONDS)

    first = asyncio.create_task(asyncio.to_thread(asyncio.run, post(shape)))
    assert await asyncio.to_thread(begun.wait, WAIT_SECONDS)
    headers = sign(EVENT, SECRET, now_seconds=NOW)
    second = await shape.send("POST", "/one", headers, EVENT.body)
    goes_on.set()

    assert (second.status_code, second.headers["retry-after"], await first) == (503, "5", 204)
    assert (await post(shape), len(runs)) == (204, 1)


async def test_the_first_handler_that_fits_is_run_and_what_fits_none_is_logged(
    make: Callable[..., Shape], caplog: pytest.LogCaptureFixture
) -> None:
    shape = make()
    runs: list[str] = []
    for pattern in ("orders.deleted", "*.created", "orders.#"):
        shape.receiver.on(pattern)(lambda _event, pattern=pattern: runs.append(pattern))
    for number, topic in enumerate(("orders.created", "orders.a.b", "orders", "users.new.x")):
        assert await post(shape, replace(EVENT, id=f"evt_{number}", topic=topic)) == 204

    assert (runs, "no handler fits the topic 'users.new.x'" in caplog.text) == (
        ["*.created", "orders.#", "orders.#"], True,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_are_refused(make: Callable[..., Shape], method: str) -> None:
    """FD-13."""
    answer = await make().send(method, "/one", {}, b"")

    assert (answer.status_code, "POST" in answer.headers["allow"]) == (405, True)


async def test_a_websub_verification_is_answered_as_the_policy_says(make: Callable[..., Shape]) -> None:
    """FD-15: by default nothing that was not asked for is confirmed."""
    query = "hub.mode=subscribe&hub.topic=https%3A%2F%2Fp%2Ffeed&hub.challenge=c%3C%3E&hub.lease_seconds=60"
    asked: list[Any] = []
    default, own = make(), make(confirm=lambda one: asked.append(one) or one.topic == "https://p/feed")
    answers = [await shape.send("GET", f"/one?{query}", {}, b"") for shape in (default, own)]
    answers.append(await own.send("GET", f"/one?{query}".replace("feed", "food"), {}, b""))

    assert [(answer.status_code, answer.content) for answer in answers][1] == (200, b"c<>")
    assert ([answer.status_code for answer in answers], asked[0].lease_seconds) == ([404, 200, 404], 60)
    assert answers[1].headers["content-type"].startswith("text/plain")


async def test_a_cloudevents_handshake_is_answered_as_the_policy_says(make: Callable[..., Shape]) -> None:
    """FD-15."""
    asking = {"webhook-request-origin": "hub.example"}
    default, own = make(), make(origins=["hub.example"])
    answers = [await shape.send("OPTIONS", "/one", asking, b"") for shape in (default, own)]
    answers.append(await own.send("OPTIONS", "/one", {"webhook-request-origin": "evil.example"}, b""))

    assert [(answer.status_code, answer.headers.get("webhook-allowed-origin")) for answer in answers] == [
        (405, None), (200, "hub.example"), (405, None),
    ]  # fmt: skip


async def test_a_process_that_dies_in_its_handler_loses_nothing_and_applies_nothing_twice(database_url: str) -> None:
    """FD-14: each shape, with `DatabaseSeen`: one process dies before COMMIT, one after it, and a third goes on."""
    connection = await asyncpg.connect(database_url)
    for table in (*DatabaseSeen.TABLES, "CREATE TABLE effects (shape text)"):
        await connection.execute(table)
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.sdk.receive.dying", database_url, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(WAIT_SECONDS):
        printed, _ = await program.communicate()
    effects = await connection.fetch("SELECT shape FROM effects ORDER BY shape")
    await connection.close()

    applied = [row["shape"] for row in effects]
    assert (json.loads(printed), applied) == ({shape: [DIED, DIED, 204] for shape in SHAPES}, sorted(SHAPES))


def test_the_memory_of_repeats_is_bounded() -> None:
    """FD-14."""
    seen = Seen(keep=2)
    for key in "abc":
        seen.begin(key)
        seen.end(key, done=True)

    assert [seen.begin(key) for key in "abc"] == ["new", "done", "done"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_receiver_without_a_secret_is_refused_with_the_cure(shape: str) -> None:
    with pytest.raises(ValueError, match="secrets="):
        SHAPES[shape]()
