"""Titanic (9/TSP) in a process of its own, over any Majordomo broker; `hookwire broker --titanic` has it inside."""

import asyncio
import signal
import threading
from pathlib import Path

from failures import parser

from hookwire.services import AsyncClient, NoReply, Worker
from reqrep.titanic.caller import NotAnswered
from reqrep.titanic.dispatcher import Dispatcher
from reqrep.titanic.file_store import FileStoreOptions, open_file_store
from reqrep.titanic.options import TitanicOptions
from reqrep.titanic.services import TITANIC_NAMES, TitanicServices
from reqrep.titanic.store import AcceptedRequest

options = parser(
    __doc__, connect="tcp://127.0.0.1:5555", folder=Path("titanic-requests"), concurrency=16, execution_seconds=900.0
).parse_args()


class BrokerCaller:
    """Calls services as any client does."""

    def __init__(self, client: AsyncClient, patient: AsyncClient) -> None:
        self._client, self._patient = client, patient

    async def is_live(self, service: str) -> bool:
        """Ask the broker; without an answer nothing can be called now."""
        try:
            return await self._client.call("mmi.service", service.encode()) == b"200"
        except NoReply:
            return False

    async def call(self, request: AcceptedRequest) -> list[bytes]:
        """Wait for the reply as long as an execution may take: a second try would be a second execution."""
        try:
            return await self._patient.call_frames(request.service, request.body)
        except NoReply as error:
            raise NotAnswered(error.reason) from error


async def main() -> None:
    """Serve until SIGTERM."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    endpoints = options.connect.split(",")
    async with (
        open_file_store(FileStoreOptions(options.folder)) as store,
        AsyncClient(*endpoints) as client,
        AsyncClient(*endpoints, window=500, timeout_seconds=options.execution_seconds, tries=1) as patient,
    ):
        services, worker = TitanicServices(store), Worker(*endpoints)
        for name in sorted(TITANIC_NAMES):

            def answer(frames: list[bytes], name: bytes = name) -> list[bytes]:
                return asyncio.run_coroutine_threadsafe(services.answer(name, frames), loop).result()

            worker.frames_service(name.decode(), concurrency=options.concurrency)(answer)
        thread = threading.Thread(target=worker.run)
        thread.start()
        limits = TitanicOptions(execution_seconds=options.execution_seconds)
        dispatching = asyncio.create_task(Dispatcher(store, BrokerCaller(client, patient), limits).run())
        print(f"titanic keeps requests in {options.folder}", flush=True)
        await stopped.wait()
        dispatching.cancel()
        worker.stop()
        await asyncio.to_thread(thread.join)


asyncio.run(main())
