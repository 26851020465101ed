"""Queues over HTTP: submit, receive, accept, reject, extend, dead letters, copies, temporary queues (JB-01..JB-17)."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import Any

import httpx
import pytest

from jobs.queues.queues import Queues
from tests.app.conftest import RunHub, RunningHub


async def submit(hub: RunningHub, *bodies: str, queue: str = "q", **headers: str) -> list[str]:
    found = []
    for body in bodies:
        answer = await hub.client.post(f"/queues/{queue}/messages", content=body, headers=headers)
        assert answer.status_code == 201, answer.text
        found += answer.json()["ids"]
    return found


async def ask(hub: RunningHub, verb: str, queue: str = "q", **asked: Any) -> list[dict[str, Any]]:
    answer = await hub.client.post(f"/queues/{queue}/{verb}", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def settle(hub: RunningHub, verb: str, items: list[dict[str, Any]], **more: Any) -> list[str]:
    answered = await ask(hub, verb, receipts=[item["receipt"] for item in items], **more)
    return [item["state"] for item in answered]


def bodies(items: list[dict[str, Any]]) -> list[str]:
    return [item["message"]["payload"] for item in items]


async def counts(hub: RunningHub, queue: str = "q") -> dict[str, int]:
    found = (await hub.client.get(f"/queues/{queue}")).json()["counts"]
    return {name: found[name] for name in ("available", "claimed", "delayed", "dead")}


async def test_the_walk_through_of_the_article_over_http(running_hub: RunHub) -> None:
    """JT-01, JB-02, JB-03, JB-05, JB-06, JB-10: 4, 3, 3, 1, 0 are left."""
    async with running_hub() as hub:
        await submit(hub, "1", "2", "3", "4")
        left = [(await counts(hub))["available"]]
        for most, verb in ((1, "accept"), (2, "reject"), (2, "accept"), (2, "accept")):
            held = await ask(hub, "receive", max=most)
            await settle(hub, verb, held)
            left.append((await counts(hub))["available"])

        assert (left, bodies(held)) == ([4, 3, 3, 1, 0], ["4"])


async def test_a_message_comes_back_as_it_was_submitted(running_hub: RunHub) -> None:
    """JB-01, JB-11: the bytes are stored unchanged."""
    async with running_hub() as hub:
        await hub.client.post(
            "/queues/q/messages",
            content=b'{"n":  1}',
            headers={
                "content-type": "application/json", "hookwire-type": "t", "hookwire-key": "k", "hookwire-priority": "7",
                "hookwire-header-trace": "a-1",
            },
        )  # fmt: skip
        await hub.client.post("/queues/q/messages", content=b"\xff")
        first, second = await ask(hub, "receive", max=2)
        message = {name: value for name, value in first["message"].items() if name not in ("id", "created_at")}

        assert message == {
            "content_type": "application/json", "headers": {"trace": "a-1"}, "type": "t", "key": "k", "priority": 7,
            "payload": '{"n":  1}', "payload_base64": None,
        }  # fmt: skip
        assert (second["message"]["payload"], second["message"]["payload_base64"]) == (None, "/w==")


async def test_a_batch_is_stored_whole_or_not_at_all(running_hub: RunHub) -> None:
    """JB-02."""
    async with running_hub() as hub:
        ndjson = {"content-type": "application/x-ndjson"}
        made = await hub.client.post("/queues/q/messages", content=b'{"n": 1}\n{"n": 2}\n', headers=ndjson)
        bad = await hub.client.post("/queues/q/messages", content=b'{"n": 3}\nnope\n', headers=ndjson)

        assert (len(made.json()["ids"]), bad.status_code, bodies(await ask(hub, "receive", max=9))) == (
            2,
            400,
            ['{"n": 1}', '{"n": 2}'],
        )


async def test_a_line_of_a_batch_is_stored_as_it_came_without_its_end(running_hub: RunHub) -> None:
    """As an event of a batch: blanks stay, the line's end goes, and a blank line is no message."""
    async with running_hub() as hub:
        ndjson = {"content-type": "application/x-ndjson"}
        await hub.client.post("/queues/q/messages", content=b' {"n": 1} \r\n \r\n\t{"n": 2}\n', headers=ndjson)

        assert bodies(await ask(hub, "receive", max=9)) == [' {"n": 1} ', '\t{"n": 2}']


async def test_a_stale_receipt_is_told_and_changes_nothing(running_hub: RunHub) -> None:
    """JB-60, JT-07: each receipt `done` or `stale` in a 200, also what is none."""
    async with running_hub() as hub:
        await submit(hub, "1")
        held = await ask(hub, "receive")
        states = [await settle(hub, "extend", held, lease_seconds=60)]
        await settle(hub, "reject", held, count=False)
        again = await ask(hub, "receive")
        nonsense = [{"receipt": "x"}, {"receipt": "msg_1_" + "9" * 18}]
        states += [await settle(hub, verb, [*held, *nonsense]) for verb in ("accept", "reject", "extend")]
        states.append(await settle(hub, "accept", again))

        assert (states, again[0]["attempts"]) == ([["done"], *[["stale"] * 3] * 3, ["done"]], 1)


async def test_a_receiver_that_does_not_settle_loses_its_lease_and_a_poison_message_is_dead(
    running_hub: RunHub,
) -> None:
    """JB-08, JT-08; JB-76: the dead letter is listed, redriven in its old place, purged."""
    async with running_hub() as hub:
        await hub.client.put("/queues/q", json={"deliveries_max": 2})
        await submit(hub, "poison")
        for _ in range(2):
            await ask(hub, "receive", lease_seconds=1, wait_seconds=20)
        await submit(hub, "good")
        dead = await hub.until("/queues/q/dead", lambda answer: answer["items"])
        letter = dead["items"][0]
        again = (await hub.client.post("/queues/q/dead/redrive", json={"reason": "mended"})).json()["ids"]
        held = await ask(hub, "receive", max=2)
        await settle(hub, "reject", held[:1], dead=True, reason="still bad")
        purged = (await hub.client.post("/queues/q/dead/purge", json={"ids": again})).json()["ids"]
        audited = [item["action"] for item in (await hub.client.get("/audit")).json()["items"]]

        assert (letter["reason"], letter["payload"], letter["attempts"]) == (
            "received 2 times and never settled",
            "poison",
            2,
        )
        assert (bodies(held), again == purged, sorted(audited)) == (
            ["poison", "good"],
            True,
            ["message.purge", "message.redrive"],
        )


async def test_waiting_receivers_are_woken_by_submissions_from_anywhere(running_hub: RunHub) -> None:
    """JB-65, JP-19: through this process, and by an SQL transaction without a notification."""
    async with running_hub(sql_notify=False) as hub:
        waiting = [asyncio.ensure_future(ask(hub, "receive", wait_seconds=20)) for _ in range(2)]
        await submit(hub, "http")
        await hub.sql("SELECT hookwire.submit('q', 'sql')")
        async with asyncio.timeout(15):
            found = await asyncio.gather(*waiting)

        assert sorted(bodies([*found[0], *found[1]])) == ["http", "sql"]


async def test_a_wait_ends_with_nothing_when_nothing_comes(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        began = time.monotonic()
        assert (await ask(hub, "receive", wait_seconds=0.2), time.monotonic() - began >= 0.2) == ([], True)


async def test_the_fields_of_a_message_are_utf_8(running_hub: RunHub) -> None:
    """As those of an event; two fields of one name, and other bytes, are refused."""
    async with running_hub() as hub:
        fields = [(b"Hookwire-Key", "é".encode()), (b"Hookwire-Header-City", "Köln".encode())]
        wrong = [[*fields, (b"hookwire-header-city", b"Bonn")], [(b"Hookwire-Key", b"\xe9")], [fields[0], fields[0]]]
        statuses = [
            (await hub.client.post("/queues/q/messages", content=b"1", headers=headers)).status_code
            for headers in (fields, *wrong)
        ]
        [found] = await ask(hub, "receive", filter={"key": "é"})

        assert statuses == [201, 400, 400, 400]
        assert (found["message"]["key"], found["message"]["headers"]) == ("é", {"city": "Köln"})


async def test_a_receiver_whose_filter_fits_nothing_asks_seldom(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = 0

    async def counted(*given: Any) -> Any:
        nonlocal fetched
        fetched += 1
        return await receive(*given)

    async with running_hub() as hub:
        await submit(hub, *"123")
        receive = Queues.receive
        monkeypatch.setattr(Queues, "receive", counted)
        assert await ask(hub, "receive", wait_seconds=1.5, filter={"type": "t"}) == []

    assert 2 <= fetched <= 10


async def test_a_paused_queue_hands_nothing_out(running_hub: RunHub) -> None:
    """JB-77."""
    async with running_hub() as hub:
        await submit(hub, "1")
        await hub.client.post("/queues/q/pause", json={})
        paused = await ask(hub, "receive")
        await hub.client.post("/queues/q/resume", json={})

        assert (paused, bodies(await ask(hub, "receive"))) == ([], ["1"])


async def test_each_consumer_reads_its_copies(running_hub: RunHub) -> None:
    """JB-13, JB-14, JB-12: accepting a receipt stands for all before it."""
    async with running_hub() as hub:
        for name in ("a", "b"):
            answer = await hub.client.put(f"/queues/q/consumers/{name}", json={})
            assert answer.status_code == 204, answer.text
        await submit(hub, "1", "2", "3")
        moved = await ask(hub, "receive", max=9)
        first = await ask(hub, "receive", max=2, consumer="a", wait_seconds=5)
        states = await settle(hub, "accept", first[1:])
        rest = await ask(hub, "receive", max=9, consumer="a", wait_seconds=5)
        whole = await ask(hub, "receive", max=9, consumer="b", wait_seconds=5)
        stale = await settle(hub, "accept", first)
        listed = [item["name"] for item in (await hub.client.get("/queues/q/consumers")).json()["items"]]
        unknown = await hub.client.post("/queues/q/receive", json={"consumer": "c"})

        assert [bodies(items) for items in (moved, first, rest, whole)] == [
            ["1", "2", "3"], ["1", "2"], ["3"], ["1", "2", "3"],
        ]  # fmt: skip
        assert (states, stale, listed, unknown.status_code) == (["done"], ["stale", "stale"], ["a", "b"], 404)


async def test_a_temporary_queue_ends_when_nobody_receives(running_hub: RunHub) -> None:
    """JB-16, JT-14: its receivers are told, and its name is never made again by itself."""
    async with running_hub(temporary_queues_max=1) as hub:
        made = (await hub.client.post("/queues", json={"lifetime_seconds": 60, "owner": "me"})).json()
        full = await hub.client.post("/queues", json={})
        name = made["queue"]
        await submit(hub, "reply", queue=name)
        got = bodies(await ask(hub, "receive", queue=name))
        await hub.sql("UPDATE hookwire.queues SET expires_at = now() WHERE name = $1", name)
        late = await hub.client.post(f"/queues/{name}/receive", json={})
        gone = await hub.client.delete(f"/queues/{name}")
        after = await hub.client.post(f"/queues/{name}/messages", content=b"x")

        assert (name[:4], full.status_code, got) == ("tmp.", 409, ["reply"])
        assert (late.status_code, gone.status_code, after.status_code) == (404, 204, 404)


async def test_a_queue_that_a_transaction_has_made_is_listed(running_hub: RunHub) -> None:
    """JB-16."""
    async with running_hub() as hub:
        await hub.sql("SELECT hookwire.submit('by.sql', 'x')")
        found = (await hub.client.get("/queues/by.sql")).json()

        assert (found["queue"], found["counts"]["available"]) == ("by.sql", 1)


REFUSED: list[tuple[str, str, Any, int]] = [
    ("POST", "/queues/no%20good/messages", b"x", 400),
    ("POST", f"/queues/{'a' * 201}/messages", b"x", 400),
    ("POST", "/queues/q/messages", b"x" * 2_000_000, 413),
    ("POST", "/queues/q/receive", {"max": 0}, 400),
    ("POST", "/queues/q/receive", {"filter": {"sql": "1"}}, 400),
    ("POST", "/queues/q/receive", {"wait_seconds": 21}, 400),
    ("POST", "/queues/q/accept", {"receipts": []}, 400),
    ("POST", "/queues/q/accept", {}, 400),
    ("POST", "/queues/q/reject", {"receipts": ["msg_1_1"], "delay_seconds": -1}, 400),
    ("PUT", "/queues/q", {"moves": False}, 400),
    ("PUT", "/queues/tmp.mine", {}, 400),
    ("GET", "/queues/nobody", None, 404),
    ("DELETE", "/queues/nobody", None, 404),
    ("POST", "/queues/nobody/pause", {}, 404),
    ("PUT", "/queues/q/consumers/a", {"since": "2026-01-01T00:00:00"}, 400),
    ("DELETE", "/queues/q/consumers/nobody", None, 404),
    ("GET", "/queues?cursor=x", None, 400),
]


async def test_what_is_wrong_is_a_problem_and_changes_nothing(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        found = []
        for method, path, body, _ in REFUSED:
            sent = {"content": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
            answer: httpx.Response = await hub.client.request(method, path, **sent)
            assert answer.headers["content-type"] == "application/problem+json", (path, answer.text)
            found.append((method, path, body, answer.status_code))
        left = await hub.sql("SELECT count(*) FROM hookwire.messages")

        assert (found, left) == (REFUSED, [(0,)])


NAMES = [("POST", "/queues/no%20good/messages", "queue"), ("PUT", "/job-kinds/no%20good", "kind"),
         ("PUT", "/task-kinds/no%20good", "kind")]  # fmt: skip


async def test_a_wrong_name_is_called_by_what_it_names(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        found = [(await hub.client.request(method, path, json={})).json() for method, path, _ in NAMES]

    assert [(one["parameter"], one["detail"].startswith(f"{one['parameter']}: a {what} is")) for one, (*_, what) in
            zip(found, NAMES, strict=True)] == [(what, True) for *_, what in NAMES], found  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
async def test_an_unknown_queue_is_made_or_refused_as_the_setting_says(running_hub: RunHub, known: bool) -> None:
    """JB-16."""
    async with running_hub(queues_auto_create=False) as hub:
        if known:
            await hub.client.put("/queues/q", json={})
        answer = await hub.client.post("/queues/q/messages", content=json.dumps({"n": 1}))

        assert answer.status_code == (201 if known else 404)


async def test_a_receive_from_a_queue_that_nobody_knows_says_so(running_hub: RunHub) -> None:
    """GM-12 b, JB-16: an empty answer may be a wrong name; of a known queue it is none."""
    async with running_hub() as hub:
        await hub.client.put("/queues/mail", json={})
        answers = [await hub.client.post(f"/queues/{name}/receive", json={}) for name in ("mial", "mail")]

    assert [(one.status_code, one.json(), one.headers.get("Hookwire-Notice")) for one in answers] == [
        (200, {"items": []}, "nobody has used or made the queue mial yet; check its name"),
        (200, {"items": []}, None),
    ]


async def test_what_was_accepted_is_listed_where_its_queue_keeps_history(running_hub: RunHub) -> None:
    """JB-07: the latest first, page by page; a cursor beyond the calendar is no server's trouble."""
    async with running_hub() as hub:
        await hub.client.put("/queues/q", json={"history": True})
        await submit(hub, "1", "2", "3")
        for _ in range(3):
            await settle(hub, "accept", await ask(hub, "receive", max=1))
        first = (await hub.client.get("/queues/q/archive?limit=2")).json()
        rest = (await hub.client.get(f"/queues/q/archive?limit=2&cursor={first['next_cursor']}")).json()
        none = await hub.client.get("/queues/other/archive")
        far = base64.urlsafe_b64encode(b"[9223372036854775807, 9223372036854775807]").decode()
        latest = (await hub.client.get(f"/queues/q/archive?cursor={far}")).json()

        listed = [[item["payload"] for item in page["items"]] for page in (first, rest, latest)]
        assert listed == [["3", "2"], ["1"], ["3", "2", "1"]]
        assert (rest["next_cursor"], none.json()["items"], first["items"][0]["attempts"]) == (None, [], 1)
