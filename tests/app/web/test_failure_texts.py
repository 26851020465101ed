"""The text of a failure: a worker in any language reports it, whatever it holds."""

from __future__ import annotations

import json

import pytest

from app.web.api.route.remark import Remark, with_remarks
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.test_jobs import claim_one, enqueue
from tests.app.web.test_pull import pulling

TEXTS = {
    "a NUL": rb'"bo\u0000om"',
    "half a character": rb'"\ud800 boom"',
    "no UTF-8": b'"caf\xe9"',
    "lines": rb'"Traceback:\n  File \"a\"\tline 1"',
    "900,000 characters": json.dumps("x" * 900_000).encode(),
    "an object": b'{"code": 7}',
    "nothing": b"null",
}
KEPT = ["bo\ufffdom", "? boom", "caf\ufffd", 'Traceback:\n  File "a"\tline 1', "x" * 2_000, '{"code": 7}', None]


async def sent(hub: RunningHub, path: str, receipt: str, member: str, text: bytes) -> int:
    """Report a failure with a text that no client of ours would write."""
    body = b'{%s, "%s": %s}' % (receipt.encode(), member.encode(), text)
    answer = await hub.client.post(path, content=body, headers={"content-type": "application/json"})
    return answer.status_code


async def test_the_failure_of_a_job_is_recorded_whatever_its_text_is(running_hub: RunHub) -> None:
    """GB-06: otherwise the claim ends as that of a dead worker, and the job is done again. Its progress likewise."""
    statuses, errors, notes = [], [], []
    async with running_hub() as hub:
        for text in TEXTS.values():
            job = await enqueue(hub, attempts_max=1)
            item = await claim_one(hub)
            receipt = f'"receipt": "{item["receipt"]}"'
            statuses.append(await sent(hub, f"/jobs/{job}/progress", f'{receipt}, "done": 1', "note", text))
            notes += [row[0] for row in await hub.sql("SELECT progress_note FROM hookwire.jobs WHERE id = $1", job)]
            statuses.append(await sent(hub, f"/jobs/{job}/fail", receipt, "error", text))
            errors.append((await hub.client.get(f"/jobs/{job}")).json()["errors"][0]["error"])

    assert (set(statuses), errors) == ({200}, [text or "failed" for text in KEPT])
    assert notes == [text and text[:500] for text in KEPT]


async def test_a_message_is_rejected_whatever_the_reason_is(running_hub: RunHub) -> None:
    """GB-06: as a dead letter, which shows the reason."""
    statuses = []
    async with running_hub() as hub:
        for text in TEXTS.values():
            await hub.client.post("/queues/q/messages", content=b"x")
            [item] = (await hub.client.post("/queues/q/receive", json={})).json()["items"]
            receipt = f'"dead": true, "receipts": ["{item["receipt"]}"]'
            statuses.append(await sent(hub, "/queues/q/reject", receipt, "reason", text))
        letters = await hub.sql("SELECT reason FROM hookwire.dead_messages ORDER BY id")

    assert (set(statuses), [row[0] for row in letters]) == (
        {200},
        [text[:500] if text else "rejected" for text in KEPT],
    )


async def test_a_delivery_is_given_up_whatever_the_reason_is(running_hub: RunHub) -> None:
    """GB-06: the attempt of a pull subscription shows the reason."""
    statuses = []
    async with running_hub(ALL_ROLES) as hub:
        puller = await pulling(hub)
        for text in TEXTS.values():
            await hub.publish("a")
            [item] = await puller.fetch()
            receipt = f'"dead": true, "receipts": ["{item["receipt"]}"]'
            statuses.append(await sent(hub, f"{puller.path}/nack", receipt, "reason", text))
        attempts = await hub.sql("SELECT detail FROM hookwire.attempts ORDER BY event_id")

    assert (set(statuses), [row[0] for row in attempts]) == ({200}, [text and text[:500] for text in KEPT])


@pytest.mark.parametrize(
    "body", [b'{"a": NaN}', b'{"error": "x"', b"[1]", b"[" * 100_000, b'{"error":' + b"[" * 200, b"{7: 8}"]
)
def test_a_body_whose_fault_is_not_its_remark_is_left_as_it_is(body: bytes) -> None:
    assert with_remarks(body, {"error": Remark(10)}) is None


@pytest.mark.parametrize(
    "rest",
    [
        rb'"receipt": "b\u0000"', b'"dead": true, "dead": false', b'"result": "caf\xe9"',
        b'"n": 1.00000000000000000001', b'"error": "y"', b'"jobs": [{"a": 1, "a": 2}]',
    ],
)  # fmt: skip
def test_what_stands_beside_a_remark_stays_as_it_was_sent(rest: bytes) -> None:
    """So the strict reader refuses what it would refuse without the remark."""
    kept = with_remarks(b'{%s, "error": "a\xe9"}' % rest, {"error": Remark(10)})
    assert kept == rb'{%s, "error": "a\ufffd"}' % rest


async def test_a_member_that_stands_twice_is_refused_beside_a_remark(running_hub: RunHub) -> None:
    async with running_hub() as hub:
        job = await enqueue(hub, attempts_max=1)
        receipt = f'"receipt": "{(await claim_one(hub))["receipt"]}"'
        twice = await sent(hub, f"/jobs/{job}/fail", f'{receipt}, "dead": true, "dead": false', "error", TEXTS["a NUL"])
    assert twice == 400
