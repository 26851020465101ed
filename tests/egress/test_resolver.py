"""egress/resolver.py: bounded lookups with a deadline (EG-06, WH-I12, F33); no name leaves this machine."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

import pytest

from egress.resolver import ResolveFailed, ThreadResolver
from tests.waiting import until


class Stalling:
    """A blocking lookup that stalls on names under `.stalled.example` until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.threads = 0
        self.threads_peak = 0
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, host: str) -> list[str]:
        with self._lock:
            self.asked.append(host)
            self.threads += 1
            self.threads_peak = max(self.threads, self.threads_peak)
        try:
            if "stalled" in host:
                self.go.wait(30)
            return ["93.184.216.34"]
        finally:
            with self._lock:
                self.threads -= 1


def _resolver(lookup: Callable[[str], list[str]], **rest: float) -> ThreadResolver:
    return ThreadResolver(lookup=lookup, **{"deadline_seconds": 5.0, **rest})  # type: ignore[arg-type]


async def _detail(resolver: ThreadResolver, host: str) -> str:
    with pytest.raises(ResolveFailed) as caught:
        await resolver.resolve(host)
    return caught.value.detail


async def test_answers_come_in_their_order() -> None:
    resolver = _resolver(lambda _host: ["93.184.216.34", "2606:4700::1111"])
    assert await resolver.resolve("a.example") == (ip_address("93.184.216.34"), ip_address("2606:4700::1111"))


async def test_the_platform_resolver_knows_this_machine() -> None:
    """Loopback only: the hosts file."""
    assert ip_address("127.0.0.1") in await ThreadResolver().resolve("localhost")


async def test_only_so_many_answers_are_looked_at() -> None:
    """EG-06, F33: 100 records."""
    resolver = _resolver(lambda _host: [f"93.184.216.{n}" for n in range(100)])
    assert len(await resolver.resolve("a.example")) == 64


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
async def test_an_unknown_name_fails_in_words_of_ours(error: Exception) -> None:
    """OB-11."""

    def lookup(_host: str) -> list[str]:
        raise error

    assert await _detail(_resolver(lookup), "a.example") == "the host name could not be resolved"


async def test_a_name_without_addresses_fails() -> None:
    assert await _detail(_resolver(lambda _host: []), "a.example") == "the host name has no address"


async def test_a_programming_error_in_a_lookup_is_not_hidden() -> None:
    def lookup(_host: str) -> list[str]:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await _resolver(lookup).resolve("a.example")


async def test_a_stalled_lookup_ends_at_the_deadline_and_the_next_one_may_succeed() -> None:
    """EG-06."""
    lookup = Stalling()
    resolver = _resolver(lookup, deadline_seconds=0.1)
    assert await _detail(resolver, "a.stalled.example") == "the host name was not resolved in time"
    lookup.go.set()
    assert await resolver.resolve("a.stalled.example")


async def test_stalled_lookups_do_not_stop_other_zones() -> None:
    """WH-I12, I7: forty names of one zone stall, another name resolves at once."""
    lookup = Stalling()
    resolver = _resolver(lookup, threads_max=8, zone_threads_max=4)
    async with asyncio.TaskGroup() as group:
        stuck = [group.create_task(_ignoring(resolver, f"{n}.stalled.example")) for n in range(40)]
        await until(lambda: lookup.threads == 4)
        assert await resolver.resolve("a.healthy.test")
        for task in stuck:
            task.cancel()
        lookup.go.set()
    assert lookup.threads_peak == 5


async def test_lookups_under_way_are_bounded_in_all() -> None:
    """EG-06."""
    lookup = Stalling()
    resolver = _resolver(lookup, threads_max=3, deadline_seconds=0.2)
    await asyncio.gather(*(_ignoring(resolver, f"stalled.zone{n}.test") for n in range(10)))
    assert (lookup.threads_peak, len(lookup.asked)) == (3, 3)
    lookup.go.set()


async def test_callers_who_want_the_same_name_share_one_lookup() -> None:
    lookup = Stalling()
    resolver = _resolver(lookup)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(resolver.resolve("a.stalled.example")) for _ in range(50)]
        await until(lambda: bool(lookup.asked))
        lookup.go.set()
    assert (lookup.asked, {task.result() for task in tasks}) == (
        ["a.stalled.example"],
        {(ip_address("93.184.216.34"),)},
    )


async def test_a_caller_who_goes_leaves_the_others_their_lookup() -> None:
    lookup = Stalling()
    resolver = _resolver(lookup)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(resolver.resolve("a.stalled.example"))
        second = group.create_task(resolver.resolve("a.stalled.example"))
        await until(lambda: bool(lookup.asked))
        first.cancel()
        lookup.go.set()
    assert (first.cancelled(), second.result()) == (True, (ip_address("93.184.216.34"),))


async def test_each_new_connection_resolves_the_name_again() -> None:
    """EG-05: every new connection resolves again."""
    lookup = Stalling()
    resolver = _resolver(lookup)
    for _ in range(3):
        await resolver.resolve("a.example")
    assert len(lookup.asked) == 3


async def test_slots_come_back_after_every_kind_of_end() -> None:
    """A thousand lookups through two threads: success, failure, cancelled and too late."""
    calls = 0

    def lookup(_host: str) -> list[str]:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise socket.gaierror
        return ["93.184.216.34"]

    resolver = _resolver(lookup, threads_max=2, zone_threads_max=1)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_ignoring(resolver, f"{n}.zone{n % 7}.test")) for n in range(1000)]
        await asyncio.sleep(0)
        for task in tasks[::5]:
            task.cancel()
    assert await _ignoring(resolver, "last.zone0.test") or await _ignoring(resolver, "again.zone0.test")
    assert resolver._zones == {}


def test_a_stalled_lookup_does_not_hold_up_the_end_of_the_process() -> None:
    """Daemon threads: the pool of asyncio would be joined at exit."""
    lookup = Stalling()
    with suppress(ResolveFailed):
        asyncio.run(_resolver(lookup, deadline_seconds=0.05).resolve("a.stalled.example"))
    stuck = [thread for thread in threading.enumerate() if thread.name == "resolve-a.stalled.example"]
    lookup.go.set()
    assert [thread.daemon for thread in stuck] == [True]
    for thread in stuck:
        thread.join(10)


async def _ignoring(resolver: ThreadResolver, host: str) -> bool:
    try:
        return bool(await resolver.resolve(host))
    except ResolveFailed:
        return False
