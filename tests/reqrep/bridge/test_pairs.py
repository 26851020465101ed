"""One request in three protocols: made, answered and fetched in all pairs of ZeroMQ, HTTP and SQL (ZU-01, ZU-13)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from app.cli.titanic import StoreChoice, titanic_plan
from app.settings.settings import Settings
from hookwire.services.client import Client
from reqrep.majordomo.program import BrokerProgram
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.reqrep.running import client_of, running_broker, running_worker
from tests.reqrep.titanic.peers import reply as reply_of
from tests.reqrep.titanic.peers import submit

WAYS = ("zeromq", "http", "sql")
FRAMES = "application/vnd.hookwire.frames+json"
TEXT = {"content-type": "text/plain", "prefer": "respond-async"}


@contextmanager
def bridged_broker(database_url: str, folder: Path) -> Iterator[BrokerProgram]:
    """A broker on the hub's database, as ``hookwire broker --titanic database`` has it."""
    settings = Settings(database_url=database_url, data_dir=folder)
    plan = titanic_plan(StoreChoice("database", 0, settings), 8, 60.0, "7d")
    with running_broker(titanic=plan) as program:
        yield program


class Bridge:
    """A hub, and a client of the broker on its database."""

    def __init__(self, hub: RunningHub, client: Client) -> None:
        self.hub = hub
        self.client = client

    async def make(self, way: str, service: str, body: str) -> str:
        if way == "zeromq":
            return (await asyncio.to_thread(submit, self.client, body.encode(), service=service.encode())).decode()
        if way == "http":
            answer = await self.hub.client.post(f"/services/{service}", content=body, headers=TEXT)
            return answer.headers["hookwire-request-id"]  # a quick worker may have answered: then the body is its reply
        [(request_id,)] = await self.hub.sql("SELECT hookwire.request($1, $2::text)", service, body)
        return str(request_id)

    async def work(self, way: str, service: str, count: int) -> None:
        """Echo so many requests; over ZeroMQ a worker does it by itself."""
        for _ in range(0 if way == "zeromq" else count):
            if way == "http":
                claimed = await self.hub.client.post(f"/services/{service}/claim", json={"wait_seconds": 20})
                [item] = claimed.json()["items"]
                await self.hub.client.post(
                    f"/requests/{item['request']['id']}/reply", content=item["request"]["payload"],
                    headers={"hookwire-receipt": item["receipt"]},
                )  # fmt: skip
            else:
                [row] = await self.hub.sql("SELECT id, claim, body FROM hookwire.claim_requests($1)", service)
                await self.hub.sql("SELECT hookwire.reply($1, $2, $3::bytea)", *row)

    async def fetch(self, way: str, request_id: str) -> str:
        if way == "zeromq":
            [frame] = await asyncio.to_thread(reply_of, self.client, request_id.encode())
            return frame.decode()
        if way == "http":
            return (
                await self.hub.client.get(f"/requests/{request_id}", headers={"prefer": "wait=60"}, timeout=70)
            ).text
        await self.hub.client.get(f"/requests/{request_id}", headers={"prefer": "wait=60"}, timeout=70)
        [(body,)] = await self.hub.sql("SELECT body FROM hookwire.answer_of($1)", request_id)
        return str(body, "utf-8")


@pytest.fixture
def bridge(running_hub: RunHub, database_url: str, tmp_path: Path):
    @asynccontextmanager
    async def opened() -> AsyncIterator[Bridge]:
        async with running_hub(ALL_ROLES, sql_notify=False) as hub:
            with ExitStack() as stack:
                # In a thread: the hub's loop goes on, so that no transaction of it is left open meanwhile.
                program = await asyncio.to_thread(stack.enter_context, bridged_broker(database_url, tmp_path))
                endpoint = program.endpoints[0]
                with running_worker(endpoint, concurrency=4), client_of(endpoint) as client:
                    yield Bridge(hub, client)

    return opened


async def test_a_request_is_made_answered_and_fetched_in_all_pairs(bridge) -> None:
    """ZU-01: nine pairs of caller and fetcher, each with a worker of each protocol."""
    async with bridge() as both:
        asked = {
            (maker, worker): await both.make(
                maker, "echo" if worker == "zeromq" else f"{worker}-echo", f"{maker} {worker}"
            )
            for worker in WAYS
            for maker in WAYS
        }
        for worker in WAYS:
            await both.work(worker, f"{worker}-echo", len(WAYS))
        found = {
            (maker, worker, fetcher): await both.fetch(fetcher, request_id)
            for (maker, worker), request_id in asked.items()
            for fetcher in WAYS
        }

        assert found == {(maker, worker, fetcher): f"{maker} {worker}" for maker, worker, fetcher in found}
        assert len(found) == 27


async def test_several_frames_of_zeromq_pass_a_worker_of_http_unchanged(bridge) -> None:
    """ZU-13."""
    async with bridge() as both:
        request_id = await asyncio.to_thread(submit, both.client, b"", b"\xff\x00", b"x", service=b"http-echo")
        claimed = await both.hub.client.post("/services/http-echo/claim", json={"wait_seconds": 20})
        [item] = claimed.json()["items"]
        await both.hub.client.post(
            f"/requests/{request_id.decode()}/reply", content=item["request"]["payload"],
            headers={"hookwire-receipt": item["receipt"], "content-type": FRAMES},
        )  # fmt: skip
        frames = await asyncio.to_thread(reply_of, both.client, request_id)

        assert (item["request"]["content_type"], json.loads(item["request"]["payload"])) == (
            FRAMES, {"frames": ["", "/wA=", "eA=="]},
        )  # fmt: skip
        assert frames == [b"", b"\xff\x00", b"x"]


async def test_a_client_of_zeromq_publishes_with_the_guarantee_of_the_outbox(bridge) -> None:
    """ZU-09: 200 with the event's id once it is stored; 400 for what no transaction could publish."""
    async with bridge() as both:

        async def publish(*frames: bytes) -> list[bytes]:
            return await asyncio.to_thread(both.client.call_frames, "hub.publish", list(frames))

        status, event_id = await publish(b"orders", b"\xff", b"key", b"a/b")
        event = (await both.hub.client.get(f"/events/{event_id.decode()}")).json()
        bare = await publish(b"orders", b"")
        refused = [
            (await publish(*frames))[0]
            for frames in (
                (b"orders",),
                (b"a b", b""),
                (b"hookwire.x", b""),
                (b"\xff", b""),
                (b"\x00", b""),
                (b"a",) * 5,
            )
        ]
        shown = {name: event[name] for name in ("topic", "key", "content_type", "payload_base64")}

        assert (status, shown, bare[0], refused) == (
            b"200", {"topic": "orders", "key": "key", "content_type": "a/b", "payload_base64": "/w=="}, b"200",
            [b"400"] * 6,
        )  # fmt: skip


async def test_a_reply_that_the_database_refuses_is_tried_again_and_then_given_up(bridge) -> None:
    """ZU-04: a worker of ZeroMQ may send more than the hub stores; its request does not run for ever."""
    async with bridge() as both:
        await both.hub.client.put("/services/echo", json={"tries_max": 2})
        [(limit,)] = await both.hub.sql("SELECT payload_bytes_max FROM hookwire.installation")
        request_id = await both.make("http", "echo", "x" * 1000)
        await both.hub.sql("UPDATE hookwire.installation SET payload_bytes_max = 10")
        answer = await both.hub.client.get(f"/requests/{request_id}", headers={"prefer": "wait=60"}, timeout=70)

        assert (answer.status_code, limit > 1000) == (502, True)


async def test_the_hub_knows_which_services_have_workers_at_a_broker(bridge) -> None:
    """ZU-07, ZU-08: so that one which refuses without a worker takes requests for an idle worker of ZeroMQ."""
    async with bridge() as both:
        await both.hub.client.put("/services/echo", json={"without_workers": "refuse"})
        await both.hub.until("/services/echo", lambda answer: answer["counts"]["has_workers"])
        answer = await both.hub.client.post("/services/echo", content="x", headers={"prefer": "wait=60"}, timeout=70)

        assert (answer.status_code, answer.text) == (200, "x")


async def test_a_name_that_text_cannot_hold_is_kept_from_http(bridge) -> None:
    """ZU-14: any MDP name works over ZeroMQ; HTTP sees topic words only, and no event is written for others."""
    async with bridge() as both:
        endpoint_name = "Grüße aus Köln"
        request_id = await asyncio.to_thread(submit, both.client, b"x", service=endpoint_name.encode())
        listed = (await both.hub.client.get("/services")).json()["items"]
        answers = [
            (await both.hub.client.post(path, json={})).status_code
            for path in (f"/services/{endpoint_name}", f"/services/{endpoint_name}/claim")
        ]
        pending = await both.hub.client.get(f"/requests/{request_id.decode()}")

        assert ([service["name"] for service in listed if "Gr" in service["name"]], answers, pending.status_code) == (
            [], [400, 400], 202,
        )  # fmt: skip
