"""The index under both stores: what it forgets, and that nothing stays behind in its heaps."""

from __future__ import annotations

import gc
import random
import weakref

import pytest

from reqrep.titanic.index import RequestIndex
from reqrep.titanic.store import Receipt, Settled, StoreCounts


class Body:
    """A body that a test can watch go."""


def test_closed_requests_behind_a_pending_one_are_given_back() -> None:
    """MD-32: a service without workers, one old request, and a client that submits and closes for ever."""
    index: RequestIndex[Body] = RequestIndex()
    index.add("first", "idle", 0, Body())
    watched = []
    for number in range(1_000):
        body = Body()
        watched.append(weakref.ref(body))
        index.add(f"{number}", "idle", 0, body)
        del body
        index.remove(f"{number}")
    gc.collect()
    assert (sum(each() is not None for each in watched) < 50, index.waiting(0)) == (True, ["idle"])


def test_answered_requests_leave_nothing_behind_when_they_are_closed() -> None:
    index: RequestIndex[Body] = RequestIndex()
    watched = []
    for number in range(100):
        body = Body()
        watched.append(weakref.ref(body))
        index.add(f"{number}", "echo", 0, body)
        del body
        (entry,) = index.claim(0, {"echo": 1}, 30)
        index.begin_settle(0, entry.receipt)
        index.answer(entry.receipt, Body())
        index.remove(entry.id)
        del entry
    index.waiting(31)  # the leases of before are over
    gc.collect()
    assert [each for each in watched if each() is not None] == []


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_steps_keeps_what_a_plain_model_keeps(seed: int) -> None:
    """TI-11 to TI-13: random steps beside lists that are searched from end to end."""
    dice = random.Random(seed)
    index: RequestIndex[str] = RequestIndex()
    now, last = 0.0, 0
    model: dict[str, dict[str, object]] = {}
    for _ in range(600):
        now += dice.choice([0, 0, 1, 5])
        step = dice.choice(["add", "add", "claim", "settle", "release", "close", "extend"])
        held = [(key, entry["fence"]) for key, entry in model.items() if entry["fence"]]
        if step == "add":
            last += 1
            model[f"{last}"] = {"number": last, "due": now, "fence": 0, "reply": None}
            index.add(f"{last}", "echo", now, "body")
        elif step == "claim":
            ready = [key for key, entry in model.items() if entry["reply"] is None and entry["due"] <= now]  # type: ignore[operator]
            found = index.claim(now, {"echo": 2}, 10)
            assert [entry.id for entry in found] == ready[:2]
            for entry in found:
                model[entry.id] |= {"due": now + 10, "fence": entry.fence}
        elif held and step in {"settle", "release", "extend"}:
            key, fence = dice.choice(held)
            receipt, entry_ = Receipt(key, int(str(fence))), model[key]
            if step == "settle":
                assert index.judge(receipt) is Settled.STORED
                assert index.answer(receipt, "reply") == (entry_["reply"] is None)
                entry_["reply"] = "reply"
            elif step == "release":
                assert index.release(now, receipt, 3) == (entry_["reply"] is None)
                if entry_["reply"] is None:
                    entry_ |= {"due": now + 3, "fence": 0}
            else:
                assert (index.extend(now, [receipt], 7) == {receipt}) == (entry_["reply"] is None)
                if entry_["reply"] is None:
                    entry_["due"] = now + 7
        elif model and step == "close":
            key = dice.choice(list(model))
            del model[key]
            index.remove(key)
        pending = [entry for entry in model.values() if entry["reply"] is None]
        leased = [entry for entry in pending if entry["fence"] and entry["due"] > now]  # type: ignore[operator]
        assert index.counts(now) == StoreCounts(len(pending), len(leased), len(model) - len(pending))
