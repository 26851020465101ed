"""What is wrong is said at the start where it can be, once, and with the cure."""

import logging
from pathlib import Path

import pytest

from hookwire.services import LazyPirate, NoReply
from reqrep.event_lines import EventLines
from reqrep.frames import Event, Frames
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.inside import Inside
from reqrep.titanic.dispatcher import Dispatcher
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.store import AcceptedRequest, StoreError
from scripts.servers.postgres import PostgresServer
from tests.reqrep.majordomo_peers import C1, E
from tests.reqrep.test_broker_command import run
from tests.reqrep.test_examples import endpoint


def test_a_database_without_the_hubs_schema_is_found_at_the_start(postgres18: PostgresServer, tmp_path: Path) -> None:
    """GM-12 a: it said three times a second that the database does not answer."""
    config = tmp_path / "hookwire.toml"
    config.write_text(f'database_url = "{postgres18.url}"\n')
    said = run("--bind", "tcp://127.0.0.1:*", "--titanic", "database", "--config", str(config))
    assert said == (2, "the database has no schema of the hub; run: hookwire migrate (or start hookwire serve)")


@pytest.mark.parametrize(("names", "answer"), [({b"titanic.request"}, [b"400"]), (set[bytes](), None)])
def test_a_request_to_titanic_without_frames_is_answered_with_400(names: set[bytes], answer: Frames | None) -> None:
    """TI-20, GM-12 a: the client waited. Without Titanic the message is malformed, and dropped."""
    broker = Broker(inside=Inside(frozenset(names)))
    out, _ = broker.receive(0.0, [b"c", E, C1, b"titanic.request"])
    assert out == ([] if answer is None else [[b"c", E, C1, b"titanic.request", *answer]])
    assert broker.counters.drops["no-body"] == 1


def test_a_lazy_pirate_without_a_reply_names_its_server() -> None:
    """GM-12 a: it said "service ''"."""
    address = endpoint()
    client = LazyPirate(address, timeout_seconds=0.05, tries=1)
    with pytest.raises(NoReply, match=f"'{address}': no reply"):
        client.call(b"x")
    client.close()


def test_a_worker_that_registers_and_leaves_all_the_time_does_not_fill_the_log() -> None:
    """GM-12 a: there were two lines each time. A pair that changes sides is always told."""
    lines, said = EventLines(), list[str]()
    for number in range(1_000):
        for kind in ("worker-ready", "worker-gone", "dropped"):
            said += lines.of(number / 100, Event(kind, "echo", "0x01"))
    said += lines.of(20.0, Event("active"))
    said += lines.of(61.0, Event("worker-ready", "echo", "0x02"))
    assert said == [
        *(["worker-ready echo 0x01", "worker-gone echo 0x01"] * 50),
        "active",
        "not shown, above 100 lines a minute: worker-ready 950, worker-gone 950",
        "worker-ready echo 0x02",
    ]


class NoCaller:
    async def is_live(self, service: str) -> bool:
        return False

    async def call(self, request: AcceptedRequest) -> Frames:
        raise NotImplementedError


def test_a_store_that_fails_is_told_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GM-12 a: there was a line for each try."""
    now = 1_000.0
    monkeypatch.setattr("reqrep.titanic.dispatcher.time.monotonic", lambda: now)
    dispatcher = Dispatcher(MemoryRequestStore(), NoCaller())
    caplog.set_level(logging.WARNING)
    for second in range(130):
        now = 1_000.0 + second
        dispatcher._warn(StoreError("the database does not answer"))
    assert len(caplog.records) == 3
