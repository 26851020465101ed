"""The file store beside its port: shared syncs, a full disk, copies, one owner of a folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reqrep.titanic.file_store import FileStoreOptions, open_file_store
from reqrep.titanic.log_file import LogFile
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.store import (
    AcceptedRequest,
    Receipt,
    RequestAnswer,
    RequestState,
    Settled,
    StoreCounts,
    StoreError,
    StoreFull,
)  # fmt: skip
from tests.waiting import block_for

REQUEST = AcceptedRequest("echo", [b"x" * 500])
UNKNOWN = RequestAnswer(RequestState.UNKNOWN)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each sync of a batch."""
    seen: list[int] = []
    real = os.fdatasync

    def counted(descriptor: int) -> None:
        seen.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    return seen


async def test_concurrent_clients_share_a_sync(tmp_path: Path, syncs: list[int]) -> None:
    """TI-15: the first of 80 is written alone at most, the others collect meanwhile."""
    async with open_file_store(FileStoreOptions(tmp_path)) as store:
        syncs.clear()
        await asyncio.gather(*(store.accept(REQUEST) for _ in range(80)))
        assert len(syncs) <= 2


async def test_callers_that_come_back_one_after_the_other_still_share_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TI-15: without the wait for those of the last batch, one of eight would be written alone again and again."""
    batches: list[int] = []
    real = LogFile.append

    def slow(self: LogFile, batch: Sequence[Any]) -> Any:
        batches.append(len(batch))
        block_for(0.02)  # the length of a sync, not a wait
        return real(self, batch)

    async with open_file_store(FileStoreOptions(tmp_path)) as store:
        monkeypatch.setattr(LogFile, "append", slow)

        async def client(turns: int) -> None:
            for _ in range(10):
                await store.accept(REQUEST)
                for _ in range(turns):  # each answer takes another way back
                    await asyncio.sleep(0)

        await asyncio.gather(*(client(turns) for turns in range(8)))
    assert sum(batches) / len(batches) > 6


async def test_a_batch_may_wait_for_more_calls(tmp_path: Path, syncs: list[int]) -> None:
    """TI-15: group commit every N ms."""
    async with open_file_store(FileStoreOptions(tmp_path, collect_seconds=0.2)) as store:
        syncs.clear()
        first = asyncio.create_task(store.accept(REQUEST))
        await asyncio.sleep(0)
        await asyncio.gather(first, *(store.accept(REQUEST) for _ in range(7)))
        assert len(syncs) == 1


async def test_an_answer_is_given_after_the_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TI-07, ZD-16: a sync that fails is no answer, and what it should have made durable is gone."""
    async with open_file_store(FileStoreOptions(tmp_path)) as store:
        kept = await store.accept(REQUEST)

        def failing(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", failing)
            with pytest.raises(StoreError, match="Input/output error"):
                await store.accept(REQUEST)
        later = await store.accept(REQUEST)
    async with open_file_store(FileStoreOptions(tmp_path)) as again:
        claimed = await again.claim({"echo": 9}, 30)
    assert [each.receipt.id for each in claimed] == [kept, later]


async def test_a_full_file_refuses_requests_and_still_takes_replies(tmp_path: Path) -> None:
    """Nothing that was accepted is lost, and each request that is closed makes room again."""
    options = FileStoreOptions(tmp_path, file_bytes_max=60_000, reserve_bytes=20_000, compact_bytes_min=30_000)
    async with open_file_store(options) as store:
        accepted: list[str] = []

        async def accept_all() -> None:
            while True:
                accepted.append(await store.accept(REQUEST))

        with pytest.raises(StoreFull, match="nothing was lost"):
            await accept_all()
        claims = await store.claim({"echo": 1000}, 30)
        settled = {await store.settle(claimed.receipt, [b"done"]) for claimed in claims}
        for request_id in accepted:
            await store.close(request_id)
        await store.accept(REQUEST)
        assert ([c.receipt.id for c in claims], settled, await store.counts()) == (
            accepted, {Settled.STORED}, StoreCounts(1, 0, 0)
        )  # fmt: skip


async def test_a_reply_without_room_leaves_the_request_leased_and_may_be_repeated(tmp_path: Path) -> None:
    options = FileStoreOptions(tmp_path, file_bytes_max=60_000, reserve_bytes=20_000)
    async with open_file_store(options) as store:
        await store.accept(REQUEST)
        (claimed,) = await store.claim({"echo": 1}, 30)
        with pytest.raises(StoreFull):
            await store.settle(claimed.receipt, [b"x" * 100_000])
        counts = await store.counts()
        assert (counts, await store.settle(claimed.receipt, [b"small"])) == (StoreCounts(1, 1, 0), Settled.STORED)


async def test_the_file_is_copied_when_half_of_it_is_of_no_use(tmp_path: Path) -> None:
    """What is left survives the copy and the next start: pending and answered, in the order of acceptance."""
    options = FileStoreOptions(tmp_path, compact_bytes_min=100_000)
    async with open_file_store(options) as store:
        kept = [await store.accept(AcceptedRequest("echo", [b"%d" % number])) for number in range(3)]
        (first, *_) = await store.claim({"echo": 1}, 30)
        await store.settle(first.receipt, [b"reply"])
        for _ in range(1_000):
            await store.close(await store.accept(REQUEST))
        before = [await store.fetch(request_id) for request_id in kept]
    async with open_file_store(options) as again:
        after = [await again.fetch(request_id) for request_id in kept]
        claimed = [each.request.body for each in await again.claim({"echo": 9}, 30)]
        late = await again.settle(first.receipt, [b"again"])
    assert (before == after, claimed, late, (tmp_path / "requests.titanic").stat().st_size < 150_000) == (
        True, [[b"1"], [b"2"]], Settled.STORED, True
    )  # fmt: skip


async def test_a_copy_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = FileStoreOptions(tmp_path, compact_bytes_min=10_000)

    def failing(self: Path, target: Any) -> None:
        raise OSError(28, "No space left on device")

    async with open_file_store(options) as store:
        monkeypatch.setattr(Path, "replace", failing)
        request_id = await store.accept(REQUEST)
        for _ in range(100):
            await store.close(await store.accept(REQUEST))
        answer = await store.fetch(request_id)
    assert (answer.state, sorted(each.name for each in tmp_path.iterdir())) == (
        RequestState.PENDING, ["requests.titanic", "requests.titanic.lock"]
    )  # fmt: skip


async def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    async with open_file_store(FileStoreOptions(tmp_path)):
        with pytest.raises(StoreError, match="in use by another broker"):
            async with open_file_store(FileStoreOptions(tmp_path)):
                pass


async def test_a_cancelled_reply_takes_effect_or_not_and_the_file_agrees(tmp_path: Path) -> None:
    """A caller that goes while its record is written leaves no reply that only the file knows."""
    options = FileStoreOptions(tmp_path)
    async with open_file_store(options) as store:
        request_id = await store.accept(REQUEST)
        (claimed,) = await store.claim({"echo": 1}, 30)
        settling = asyncio.create_task(store.settle(claimed.receipt, [b"reply"]))
        await asyncio.sleep(0)
        settling.cancel()
        await store.accept(REQUEST)  # a later record: the one before has taken effect
        before = await store.fetch(request_id)
    async with open_file_store(options) as again:
        assert (before, await again.fetch(request_id)) == (RequestAnswer(RequestState.ANSWERED, [b"reply"]), before)


async def test_a_closed_store_answers_nothing(tmp_path: Path) -> None:
    async with open_file_store(FileStoreOptions(tmp_path)) as store:
        await store.accept(REQUEST)
    with pytest.raises(StoreError, match="is closed"):
        await store.accept(REQUEST)


async def test_fences_of_an_earlier_process_are_not_given_again(tmp_path: Path) -> None:
    receipts: list[Receipt] = []
    for _ in range(3):
        async with open_file_store(FileStoreOptions(tmp_path)) as store:
            if not receipts:
                await store.accept(REQUEST)
            receipts += [claimed.receipt for claimed in await store.claim({"echo": 1}, 30)]
    assert [each.fence for each in receipts] == sorted({each.fence for each in receipts})


async def test_a_store_takes_no_more_requests_than_it_may_hold(tmp_path: Path) -> None:
    """XX-04: each request has an entry in memory, so their number is bounded too."""
    async with open_file_store(FileStoreOptions(tmp_path, requests_max=2)) as store:
        first, _ = await store.accept(REQUEST), await store.accept(REQUEST)
        with pytest.raises(StoreFull, match="2 requests are stored"):
            await store.accept(REQUEST)
        await store.close(first)
        await store.accept(REQUEST)


async def test_requests_wait_for_a_bounded_number_of_services() -> None:
    """MD-32, XX-04: the dispatcher looks for each; a service that has requests already may get more."""
    store = MemoryRequestStore(services_max=2)
    for name in ("a", "b", "a"):
        await store.accept(AcceptedRequest(name, [b"x"]))
    with pytest.raises(StoreFull, match="too many services"):
        await store.accept(AcceptedRequest("c", [b"x"]))
    await store.claim({"b": 1}, 30)
    await store.waiting()
    await store.accept(AcceptedRequest("c", [b"x"]))


@pytest.mark.parametrize("bounds", [{"requests_max": 2}, {"bytes_max": 1_200}], ids=["requests", "bytes"])
async def test_a_store_in_memory_is_bounded_and_closing_makes_room(bounds: dict[str, int]) -> None:
    """XX-04: replies count too, and are always taken."""
    store = MemoryRequestStore(**bounds)
    first, _ = await store.accept(REQUEST), await store.accept(REQUEST)
    with pytest.raises(StoreFull, match="are stored"):
        await store.accept(REQUEST)
    (claimed, _) = await store.claim({"echo": 9}, 30)
    settled = await store.settle(claimed.receipt, [b"y" * 5_000])
    await store.close(first)
    await store.accept(REQUEST)
    assert settled is Settled.STORED
