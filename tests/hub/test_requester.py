"""What one network may ask of the WebSub hub, and that nobody else waits for it: FS-04, FX-07."""

from __future__ import annotations

import asyncio

import pytest

from egress.client import Client, Request, Response
from egress.failure import ConnectFailed
from egress.resolver import ThreadResolver
from hub.acceptance import accept
from hub.form import FormRefused, Mode, Subscribing, Verify
from hub.requester import network_of
from tests.hub.callback import after, answers, hang
from tests.hub.harness import POLICY, TOPIC, Harness, hub_harness
from tests.waiting import until

STRANGER = "192.0.2.1"


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", None),
        (None, None),
        ("testclient", None),
    ],
)
def test_a_requester_is_an_address_or_an_ipv6_network(address: str | None, network: str | None) -> None:
    """FS-04: /32 and /64."""
    assert network_of(address) == network


async def ask(
    harness: Harness, number: int, requester: str = STRANGER, mode: Mode = Mode.SUBSCRIBE, path: str = "/cb"
) -> int:
    """A request of a callback on a host of its own; its id, or the status of its refusal."""
    callback = harness.callbacks.url(path, host=f"127.0.1.{number}")
    try:
        return await accept(harness.hub, Subscribing(mode, TOPIC, callback), requester)
    except FormRefused as refused:
        return -refused.status


def told(results: list[int]) -> list[int]:
    return [min(result, 0) for result in results]


async def test_a_requester_has_a_bucket_of_its_own(database_url_both: str) -> None:
    """FS-04: what is refused costs the tenant's bucket nothing, so others are served."""
    options = {"verifications_per_minute_requester": 1, "verifications_burst_requester": 3}
    async with hub_harness(database_url_both, **options, verifications_per_minute_tenant=5) as harness:
        stranger = [await ask(harness, number) for number in range(8)]
        others = [await ask(harness, 1, "192.0.2.2"), await ask(harness, 2, "2001:db8::1")]

        assert (told(stranger), told(others)) == ([0, 0, 0, -429, -429, -429, -429, -429], [0, 0])


async def test_a_hosts_burst_may_be_larger_than_its_rate(database_url: str) -> None:
    """FX-07: as many at once as the operator says."""
    async with hub_harness(database_url, verifications_per_minute_host=1, verifications_burst_host=4) as harness:
        found = [await ask(harness, 1, path=f"/{number}") for number in range(6)]

        assert told(found) == [0, 0, 0, 0, -429, -429]


async def test_a_burst_of_requests_leaves_connections_to_others_and_all_of_it_is_stored(database_url: str) -> None:
    """FX-07: requests for one callback host wait for each other's commit, and not with a connection each."""
    async with hub_harness(database_url) as harness:
        await ask(harness, 1, path="/first")
        async with harness.sql.transaction():
            await harness.sql.execute("SELECT FROM hookwire.verification_buckets WHERE host = '127.0.1.1' FOR UPDATE")
            burst = [asyncio.create_task(ask(harness, 1, path=f"/{number}")) for number in range(40)]
            await until(lambda: waiting_for_a_lock(harness))
            failures = await harness.hub.database.fetchval("intent.failures", harness.hub.tenant, b"x" * 32)
        found = await asyncio.gather(*burst)

        assert (failures, told(found)) == (0, [0] * 40)


async def waiting_for_a_lock(harness: Harness) -> int:
    count: int = await harness.sql.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return count


async def test_few_requests_of_a_requester_wait_at_once(database_url: str) -> None:
    """FS-04: until some are decided."""
    async with hub_harness(database_url, pending_requester_max=3) as harness:
        before = [await ask(harness, number) for number in range(5)]
        other = await ask(harness, 9, "192.0.2.2")
        async with harness.verifying():
            await harness.decided(*before[:3])
        after = await ask(harness, 5)

        assert (told(before), told([other, after])) == ([0, 0, 0, -429, -429], [0, 0])


@pytest.mark.parametrize("cap", ["subscriptions_host_max", "subscriptions_requester_max"])
async def test_subscriptions_of_a_host_and_of_a_requester_have_a_number(database_url_both: str, cap: str) -> None:
    """FS-04: open requests count; renewing and ending one is always possible, and one that ended makes room."""
    async with hub_harness(database_url_both, **{cap: 2}) as harness, harness.verifying():

        async def one(path: str, mode: Mode = Mode.SUBSCRIBE) -> int:
            return await ask(harness, 1, mode=mode, path=path)

        first = [await one("/a"), await one("/b"), await one("/c")]
        await harness.decided(*first[:2])
        second = [await one("/c"), await one("/a"), await ask(harness, 2, "192.0.2.2")]
        await harness.decided(second[1], ended := await one("/b", Mode.UNSUBSCRIBE))
        third = [ended, await one("/c"), await one("/d")]

        assert (told(first), told(second), told(third)) == ([0, 0, -403], [-403, 0, 0], [0, 0, -403])


async def test_a_stranger_keeps_nobody_from_being_verified(database_url_both: str) -> None:
    """FS-04, GU-20: 40 slow callbacks wait, two are asked at a time; a request that comes later takes the next turn.

    One of the two slow callbacks answers and the other does not: the next turn is one GET, which has no competitor.
    """
    async with hub_harness(database_url_both, verification_slots=4, verification_deadline_seconds=300.0) as harness:
        first, others = asyncio.Event(), asyncio.Event()
        gates = iter([first])
        harness.callbacks.script["/slow"] = lambda *answer: after(next(gates, others), answers(200))(*answer)
        strange = [await ask(harness, number, path="/slow") for number in range(40)]
        async with harness.verifying():
            await harness.callbacks.wait_for(2)
            victim = await ask(harness, 250, "198.51.100.7", path="/victim")
            first.set()
            await harness.callbacks.wait_for(3)
            next_asked = harness.callbacks.targets[2].partition("?")[0]
            others.set()
            states = await harness.decided(*strange, victim)

        assert (set(states), next_asked) == ({"verified"}, "/victim")


async def test_hosts_that_have_confirmed_do_not_wait_for_strangers(database_url: str) -> None:
    """FS-04: half of the slots are theirs, however long the others hang, and whoever asks."""
    async with hub_harness(database_url, verification_slots=4, verification_deadline_seconds=300.0) as harness:
        harness.callbacks.script["/silent"] = hang
        async with asyncio.TaskGroup() as tasks:
            service = harness.service(Client(POLICY, ThreadResolver()))
            running = tasks.create_task(service.run())
            first = await harness.decided(await ask(harness, 250, "198.51.100.7", path="/member"))
            strange = [await ask(harness, number, path="/silent") for number in range(10)]
            await harness.callbacks.wait_for(3)
            renewed = await harness.decided(await ask(harness, 250, path="/member"))
            asked = await harness.sql.fetchval("SELECT count(*) FROM hookwire.intents WHERE state = 'verifying'")
            running.cancel()

        assert (first, renewed, asked, min(strange) > 0) == (["verified"], ["verified"], 2, True)


class _Refusing:
    """An outbound client whose connections fail; keeps what it was asked for."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        raise ConnectFailed("the connection was refused")

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("verify", "limits"), [(None, [2.0, None, None]), (Verify.SYNC, [None])], ids=["tried again", "asked once"]
)
async def test_a_first_try_waits_two_seconds_for_its_connection(
    database_url: str, verify: Verify | None, limits: list[float | None]
) -> None:
    """FS-04: where another try follows; each of them is paid for by the requester."""
    outbound = _Refusing()
    async with hub_harness(database_url, verification_retries=(0.01, 0.01)) as harness:
        async with harness.verifying(outbound):
            asked = Subscribing(Mode.SUBSCRIBE, TOPIC, harness.callbacks.url(), verify=verify)
            await harness.decided(await accept(harness.hub, asked, STRANGER))
        tokens = await harness.sql.fetchval(
            "SELECT tokens FROM hookwire.verification_buckets WHERE host = 'requester 192.0.2.1'"
        )

        assert [request.connect_seconds_max for request in outbound.requests] == limits
        assert tokens == 300 - len(limits)
