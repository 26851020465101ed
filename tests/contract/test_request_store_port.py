"""The port :class:`reqrep.titanic.store.RequestStore`, one suite for every adapter: memory, file, PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reqrep.frames import Frames
from reqrep.titanic.store import (
    AcceptedRequest,
    ClaimedRequest,
    Receipt,
    RequestAnswer,
    RequestState,
    RequestStore,
    Settled,
    StoreCounts,
    is_request_id,
)  # fmt: skip
from tests.contract.request_stores import DURABLE, STORES, Ground, Harness

LEASE_SECONDS = 30.0
DEADLINE_SECONDS = 60
PENDING = RequestAnswer(RequestState.PENDING)
UNKNOWN = RequestAnswer(RequestState.UNKNOWN)
NEVER = "0" * 32


@pytest.fixture(params=list(STORES))
async def harness(request: pytest.FixtureRequest, ground: Ground) -> AsyncIterator[Harness]:
    async with STORES[request.param](ground) as opened:
        yield opened


@pytest.fixture(params=DURABLE)
async def durable(request: pytest.FixtureRequest, ground: Ground) -> AsyncIterator[Harness]:
    async with STORES[request.param](ground) as opened:
        yield opened


@pytest.fixture
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    wants_database = "postgresql" in request.node.name
    url = request.getfixturevalue("database_url") if wants_database else ""
    return Ground(tmp_path, lambda: url)


def answered(*frames: bytes) -> RequestAnswer:
    return RequestAnswer(RequestState.ANSWERED, list(frames))


async def accept(store: RequestStore, *frames: bytes, service: str = "echo", user: str = "") -> str:
    return await store.accept(AcceptedRequest(service, list(frames or (b"hello",)), user))


async def claim(store: RequestStore, limit: int = 1, service: str = "echo") -> list[ClaimedRequest]:
    return await store.claim({service: limit}, LEASE_SECONDS)


async def claim_one(store: RequestStore, service: str = "echo") -> Receipt:
    (claimed,) = await claim(store, 1, service)
    return claimed.receipt


@pytest.mark.parametrize(
    "frames",
    [[b""], [b"one"], [b"", b"", b""], [bytes(range(256)), b"", b"\r\n\x00"], [b"x" * 300_000, b"y"]],
    ids=["empty", "one", "three-empty", "binary", "large"],
)
async def test_frames_of_request_and_reply_survive_unchanged(harness: Harness, frames: Frames) -> None:
    """TI-14."""
    store = harness.store
    request_id = await accept(store, *frames, user="alice")
    (claimed,) = await claim(store)
    settled = await store.settle(claimed.receipt, frames)
    assert (is_request_id(request_id), claimed.request, claimed.attempts, settled, await store.fetch(request_id)) == (
        True, AcceptedRequest("echo", frames, "alice"), 1, Settled.STORED, answered(*frames)
    )  # fmt: skip


async def test_a_request_is_pending_until_it_is_answered_and_fetch_changes_nothing(harness: Harness) -> None:
    """TI-03: repeated calls give the same answer."""
    store = harness.store
    request_id = await accept(store)
    before = [await store.fetch(request_id), await store.fetch(request_id)]
    receipt = await claim_one(store)
    during = await store.fetch(request_id)
    await store.settle(receipt, [b"done"])
    after = [await store.fetch(request_id), await store.fetch(request_id)]
    assert [*before, during, *after] == [PENDING, PENDING, PENDING, answered(b"done"), answered(b"done")]


async def test_requests_of_a_service_are_claimed_oldest_first_and_each_once(harness: Harness) -> None:
    """TI-13."""
    ids = [await accept(harness.store, b"%d" % number) for number in range(5)]
    first, second, third = await claim(harness.store, 2), await claim(harness.store, 10), await claim(harness.store, 10)
    assert [[c.receipt.id for c in claimed] for claimed in (first, second, third)] == [ids[:2], ids[2:], []]


async def test_services_do_not_wait_for_each_other(harness: Harness) -> None:
    """TI-19: each service has its own limit; a service that was not asked for is left alone."""
    ids = {name: [await accept(harness.store, service=name) for _ in range(3)] for name in ("a", "b", "c")}
    claimed = await harness.store.claim({"a": 2, "b": 1, "nobody": 5}, LEASE_SECONDS)
    assert (sorted(c.receipt.id for c in claimed), sorted(await harness.store.waiting())) == (
        sorted([*ids["a"][:2], *ids["b"][:1]]), ["a", "b", "c"]
    )  # fmt: skip


async def test_a_service_waits_only_while_it_has_something_to_claim(harness: Harness) -> None:
    before = list(await harness.store.waiting())
    await accept(harness.store)
    pending = list(await harness.store.waiting())
    await claim_one(harness.store)
    assert (before, pending, list(await harness.store.waiting())) == ([], ["echo"], [])


@pytest.mark.parametrize("is_release", [False, True], ids=["lease", "release"])
async def test_a_service_waits_again_when_a_lease_or_a_pause_is_over(harness: Harness, is_release: bool) -> None:
    """TI-08: a dispatcher claims only for services that it is told; nobody else may be there to end leases."""
    await accept(harness.store)
    receipt = await claim_one(harness.store)
    if is_release:
        await harness.store.release(receipt, LEASE_SECONDS)
    during = list(await harness.store.waiting())
    await harness.pass_time(LEASE_SECONDS + 1)
    assert (during, list(await harness.store.waiting())) == ([], ["echo"])


async def test_a_request_whose_lease_ended_is_given_to_another_before_younger_ones(harness: Harness) -> None:
    """TI-08: a claimer that died costs its lease and nothing else."""
    store = harness.store
    ids = [await accept(store), await accept(store)]
    dead = await claim_one(store)
    await harness.pass_time(LEASE_SECONDS + 1)
    again = await claim(store, 2)
    assert ([c.receipt.id for c in again], [c.attempts for c in again], again[0].receipt.fence > dead.fence) == (
        ids, [2, 1], True
    )  # fmt: skip


async def test_the_first_reply_wins_and_the_second_is_refused_by_its_fence(harness: Harness) -> None:
    """TI-12: a worker was killed after its effect and before its reply; both copies of the request answer."""
    store = harness.store
    request_id = await accept(store)
    slow = await claim_one(store)
    await harness.pass_time(LEASE_SECONDS + 1)
    fast = await claim_one(store)
    settled = [
        await store.settle(slow, [b"from the slow one"]),
        await store.settle(fast, [b"from the fast one"]),
        await store.settle(slow, [b"from the slow one"]),
    ]
    assert (settled, await store.fetch(request_id)) == (
        [Settled.STALE, Settled.STORED, Settled.STALE], answered(b"from the fast one")
    )  # fmt: skip


async def test_a_late_reply_is_taken_while_nobody_else_has_the_request(harness: Harness) -> None:
    request_id = await accept(harness.store)
    receipt = await claim_one(harness.store)
    await harness.pass_time(LEASE_SECONDS + 1)
    settled = await harness.store.settle(receipt, [b"late"])
    assert (settled, await harness.store.fetch(request_id), await claim(harness.store)) == (
        Settled.STORED, answered(b"late"), []
    )  # fmt: skip


async def test_one_receipt_may_settle_twice_and_the_first_reply_stays(harness: Harness) -> None:
    """A claimer that does not know whether its reply was stored repeats it."""
    request_id = await accept(harness.store)
    receipt = await claim_one(harness.store)
    settled = [await harness.store.settle(receipt, [b"one"]), await harness.store.settle(receipt, [b"two"])]
    assert (settled, await harness.store.fetch(request_id)) == ([Settled.STORED] * 2, answered(b"one"))


async def test_an_extended_lease_lasts_from_now(harness: Harness) -> None:
    store = harness.store
    await accept(store)
    receipt = await claim_one(store)
    await harness.pass_time(LEASE_SECONDS - 1)
    held = await store.extend([receipt], LEASE_SECONDS)
    await harness.pass_time(LEASE_SECONDS - 1)
    during = await claim(store)
    await harness.pass_time(2)
    assert (held, during, len(await claim(store))) == ({receipt}, [], 1)


async def test_only_a_receipt_that_holds_can_be_extended(harness: Harness) -> None:
    store = harness.store
    for _ in range(3):
        await accept(store)
    lapsed, answered_one, closed = [c.receipt for c in await claim(store, 3)]
    await store.settle(answered_one, [b"done"])
    await store.close(closed.id)
    await harness.pass_time(LEASE_SECONDS + 1)
    held = await store.extend([lapsed, answered_one, closed, Receipt(NEVER, 1)], LEASE_SECONDS)
    assert (held, await claim(store)) == ({lapsed}, [])


async def test_a_released_request_is_due_after_its_delay_and_its_receipt_holds_no_longer(harness: Harness) -> None:
    store = harness.store
    request_id = await accept(store)
    receipt = await claim_one(store)
    released = await store.release(receipt, 10)
    early = await claim(store)
    await harness.pass_time(11)
    (later,) = await claim(store)
    again = [await store.release(receipt), await store.settle(receipt, [b"stale"])]
    assert (released, early, later.receipt.id, later.attempts, again) == (
        True, [], request_id, 2, [False, Settled.STALE]
    )  # fmt: skip


async def test_a_request_that_is_released_without_delay_is_due_at_once(harness: Harness) -> None:
    request_id = await accept(harness.store)
    await harness.store.release(await claim_one(harness.store))
    assert (await claim_one(harness.store)).id == request_id


async def test_a_closed_request_is_unknown_and_never_executed(harness: Harness) -> None:
    """TI-04, TI-11: also twice, also in upper case, also an unknown id."""
    store = harness.store
    waiting, done = await accept(store), await accept(store)
    await store.settle((await claim(store, 2))[1].receipt, [b"done"])
    for request_id in (waiting.upper(), waiting, done, NEVER):
        await store.close(request_id)
    await harness.pass_time(LEASE_SECONDS + 1)
    assert (await store.fetch(waiting), await store.fetch(done), await claim(store, 9), await store.counts()) == (
        UNKNOWN, UNKNOWN, [], StoreCounts(0, 0, 0)
    )  # fmt: skip


async def test_a_reply_to_a_request_that_was_closed_meanwhile_is_discarded(harness: Harness) -> None:
    """TI-17: the id stays unknown."""
    request_id = await accept(harness.store)
    receipt = await claim_one(harness.store)
    await harness.store.close(request_id)
    settled = await harness.store.settle(receipt, [b"late"])
    assert (settled, await harness.store.fetch(request_id)) == (Settled.UNKNOWN, UNKNOWN)


async def test_a_reply_to_a_request_that_never_was_is_discarded(harness: Harness) -> None:
    assert await harness.store.settle(Receipt(NEVER, 1), [b"?"]) is Settled.UNKNOWN


async def test_an_id_is_the_same_in_upper_and_lower_case(harness: Harness) -> None:
    """TI-06: the C program writes upper case, the Python program lower case."""
    request_id = await accept(harness.store)
    assert (await harness.store.fetch(request_id.upper()), await harness.store.fetch(request_id)) == (PENDING, PENDING)


@pytest.mark.parametrize(
    "text",
    ["", "../../etc/passwd", "g" * 32, "0" * 31, "0" * 33, "\x00" * 32, "\ud800" * 32, "٣" * 32, "0" * 100_000],
    ids=["empty", "path", "not-hex", "short", "long", "nul", "surrogate", "other-digits", "huge"],
)
async def test_what_is_no_id_is_unknown(harness: Harness, text: str) -> None:
    """TI-20, ZD-15: nothing but 32 hexadecimal characters is looked up."""
    await accept(harness.store)
    await harness.store.close(text)
    assert (await harness.store.fetch(text), (await harness.store.counts()).pending) == (UNKNOWN, 1)


async def test_ids_are_never_alike_and_say_nothing(harness: Harness) -> None:
    """TI-06: the id is the only access control of TSP."""
    ids = [await accept(harness.store) for _ in range(50)]
    assert (len(set(ids)), all(map(is_request_id, ids)), [each for each in ids if each != each.lower()]) == (
        50, True, []
    )  # fmt: skip


@pytest.mark.parametrize("request_", [AcceptedRequest("", [b"x"]), AcceptedRequest("echo", [])], ids=["name", "body"])
async def test_a_request_without_service_or_frame_is_refused(harness: Harness, request_: AcceptedRequest) -> None:
    with pytest.raises(ValueError, match=r"must (name a service|have at least one frame)"):
        await harness.store.accept(request_)


async def test_a_reply_without_a_frame_is_refused(harness: Harness) -> None:
    await accept(harness.store)
    with pytest.raises(ValueError, match="at least one frame"):
        await harness.store.settle(await claim_one(harness.store), [])


async def test_a_request_is_not_given_up_however_many_of_its_workers_are_lost(harness: Harness) -> None:
    """TI-08: after more lost leases than a service's ``tries_max`` allows a request of HTTP, its reply is fetched."""
    store = harness.store
    request_id = await accept(store)
    for _ in range(7):
        await claim_one(store)
        await harness.pass_time(LEASE_SECONDS + 1)
    settled = await store.settle(await claim_one(store), [b"done"])
    assert (settled, await store.fetch(request_id)) == (Settled.STORED, answered(b"done"))


async def test_two_brokers_of_one_database_share_requests_and_the_first_reply_stands(database_url: str) -> None:
    """ZU-20: both sides of a pair are active; each request is leased to one of them, and a late reply is refused."""
    async with STORES["postgresql"](Ground(Path(), lambda: database_url)) as harness:
        assert harness.reopened is not None
        brokers = harness.store, await harness.reopened()
        ids = {await accept(brokers[number % 2], b"%d" % number) for number in range(40)}
        taken = await asyncio.gather(*(claim(broker, 20) for broker in brokers))
        late = [claimed.receipt for claimed in taken[0]]
        await harness.pass_time(LEASE_SECONDS + 1)
        again = [claimed.receipt for claimed in await claim(brokers[1], 40)]
        settled = [await brokers[1].settle(receipt, [b"second"]) for receipt in again]
        refused = [await brokers[0].settle(receipt, [b"first"]) for receipt in late]
        replies = [await broker.fetch(id_) for id_ in ids for broker in brokers]
    claimed = [each.receipt.id for part in taken for each in part]
    assert (set(claimed), len(claimed)) == (ids, 40)
    assert (set(settled), set(refused)) == ({Settled.STORED}, {Settled.STALE})
    assert replies == [answered(b"second")] * 80


async def test_old_requests_expire_unless_they_are_leased(harness: Harness) -> None:
    """TI-16: pending or answered, the id is unknown afterwards."""
    store = harness.store
    pending, done, leased = await accept(store, service="idle"), await accept(store), await accept(store)
    first, _ = await claim(store, 2)
    await store.settle(first.receipt, [b"done"])
    await harness.pass_time(LEASE_SECONDS - 1)
    young = await accept(store)
    gone = await store.expire(LEASE_SECONDS - 2)
    assert (gone, [await store.fetch(each) for each in (pending, done, leased, young)]) == (
        2, [UNKNOWN, UNKNOWN, PENDING, PENDING]
    )  # fmt: skip


async def test_the_counts_follow_each_step(harness: Harness) -> None:
    store = harness.store
    for _ in range(3):
        await accept(store)
    accepted = await store.counts()
    receipt = await claim_one(store)
    claimed = await store.counts()
    await store.settle(receipt, [b"done"])
    settled = await store.counts()
    await claim_one(store)
    await harness.pass_time(LEASE_SECONDS + 1)
    assert [accepted, claimed, settled, await store.counts()] == [
        StoreCounts(3, 0, 0), StoreCounts(3, 1, 0), StoreCounts(2, 0, 1), StoreCounts(2, 0, 1)
    ]  # fmt: skip


async def test_concurrent_accepts_are_all_stored_and_each_is_claimed_once(harness: Harness) -> None:
    """TI-13: concurrent calls may share a commit, and share nothing else."""
    ids = await asyncio.gather(*(accept(harness.store, b"%d" % number) for number in range(100)))
    claims = await asyncio.gather(*(claim(harness.store, 30) for _ in range(5)))
    claimed = {c.receipt.id: c.request.body for each in claims for c in each}
    assert claimed == {request_id: [b"%d" % number] for number, request_id in enumerate(ids)}
    assert sum(map(len, claims)) == 100


async def test_of_concurrent_replies_with_one_receipt_one_stands_and_is_what_is_fetched(harness: Harness) -> None:
    request_id = await accept(harness.store)
    receipt = await claim_one(harness.store)
    settled = await asyncio.gather(*(harness.store.settle(receipt, [b"%d" % number]) for number in range(8)))
    first, second = await harness.store.fetch(request_id), await harness.store.fetch(request_id)
    assert (settled, first == second, first.state) == ([Settled.STORED] * 8, True, RequestState.ANSWERED)


@pytest.mark.parametrize("is_release", [False, True], ids=["accept", "release"])
async def test_a_waiting_dispatcher_is_woken(harness: Harness, is_release: bool) -> None:
    store = harness.store
    if is_release:
        await accept(store)
        receipt = await claim_one(store)
        await store.changed(0.01)
    async with asyncio.timeout(DEADLINE_SECONDS / 2), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(store.changed(DEADLINE_SECONDS))
        await asyncio.sleep(0)
        if is_release:
            await store.release(receipt)
        else:
            await accept(store)
    assert (waiting.done(), list(await store.waiting())) == (True, ["echo"])


async def test_a_request_that_came_before_the_wait_wakes_it_too(harness: Harness) -> None:
    await accept(harness.store)
    async with asyncio.timeout(DEADLINE_SECONDS / 2):
        await harness.store.changed(DEADLINE_SECONDS)


async def test_a_wait_ends_with_its_time(harness: Harness) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        await harness.store.changed(0.01)


async def test_what_was_answered_accepted_or_closed_is_so_after_a_crash(durable: Harness) -> None:
    """TI-07, TI-08: the order of acceptance survives, and no receipt of before holds against a new claim."""
    store = durable.store
    done, leased, waiting, closed = [await accept(store, name) for name in (b"1", b"2", b"3", b"4")]
    first, second = [c.receipt for c in await claim(store, 2)]
    await store.settle(first, [b"reply", b""])
    await store.close(closed)
    assert durable.reopened is not None
    again = await durable.reopened()
    await durable.pass_time(LEASE_SECONDS + 1)
    claimed = await claim(again, 9)
    late = await again.settle(second, [b"late"])
    assert ([c.receipt.id for c in claimed], late, [await again.fetch(each) for each in (done, leased, closed)]) == (
        [leased, waiting], Settled.STALE, [answered(b"reply", b""), PENDING, UNKNOWN]
    )  # fmt: skip
    assert [c.request.body for c in claimed] == [[b"2"], [b"3"]]


async def test_a_reply_may_be_repeated_after_a_crash(durable: Harness) -> None:
    request_id = await accept(durable.store)
    receipt = await claim_one(durable.store)
    await durable.store.settle(receipt, [b"one"])
    assert durable.reopened is not None
    again = await durable.reopened()
    settled = await again.settle(receipt, [b"two"])
    assert (settled, await again.fetch(request_id)) == (Settled.STORED, answered(b"one"))
