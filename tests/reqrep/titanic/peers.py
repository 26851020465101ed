"""A broker with Titanic, and what clients do with its three services."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from hookwire.services.client import Client
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram
from reqrep.titanic.file_store import FileStoreOptions, open_file_store
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.options import TitanicOptions
from reqrep.titanic.thread import TitanicPlan
from tests.reqrep.running import running_broker
from tests.waiting import block_until

FAST = TitanicOptions(look_seconds=0.05, lease_seconds=2.0, retry_seconds=0.05)


def plan(folder: Path | None = None, options: TitanicOptions = FAST) -> TitanicPlan:
    """Titanic with a file in the folder, or in memory."""
    if folder is None:
        return TitanicPlan(lambda: nullcontext(MemoryRequestStore()), options)
    return TitanicPlan(lambda: open_file_store(FileStoreOptions(folder)), options)


def titanic_broker(folder: Path | None = None, **options: Any) -> AbstractContextManager[BrokerProgram]:
    titanic = plan(folder, options.pop("titanic_options", FAST))
    return running_broker(options=BrokerOptions(heartbeat_seconds=0.2, **options), titanic=titanic)


def submit(client: Client, *body: bytes, service: bytes = b"echo") -> bytes:
    """Return the id of an accepted request."""
    status, request_id = client.call_frames("titanic.request", [service, *body])
    assert status == b"200"
    return request_id


def ask(client: Client, request_id: bytes) -> list[bytes]:
    return client.call_frames("titanic.reply", [request_id])


def close(client: Client, request_id: bytes) -> list[bytes]:
    return client.call_frames("titanic.close", [request_id])


def reply(client: Client, request_id: bytes) -> list[bytes]:
    """Return the reply as soon as it is there."""

    def answered() -> list[bytes] | None:
        found = ask(client, request_id)
        return None if found == [b"300"] else found

    status, *frames = block_until(answered)
    assert status == b"200"
    return frames
