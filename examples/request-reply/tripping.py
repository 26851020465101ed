"""Round-trip demonstrator: the same calls one by one, windowed, and stored, through a broker of this process.

Stored calls go through Titanic: `--folder` names the folder of its file; without it they are stored in memory.

It starts when the broker says that the worker is there, not after a pause: under load any pause is too short.
"""

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from failures import parser

from hookwire.services import Client, Pipeline, TitanicClient, Worker
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram
from reqrep.titanic.file_store import FileStoreOptions, open_file_store
from reqrep.titanic.memory_store import MemoryRequestStore
from reqrep.titanic.thread import TitanicPlan

options = parser(__doc__, count=5_000, folder="").parse_args()


def opened():
    return (
        open_file_store(FileStoreOptions(Path(options.folder))) if options.folder else nullcontext(MemoryRequestStore())
    )


broker = BrokerProgram(["tcp://127.0.0.1:*"], BrokerOptions(), titanic=TitanicPlan(opened))
worker = Worker(*broker.endpoints)
worker.frames_service("echo")(lambda frames: frames)
threads = [threading.Thread(target=run) for run in (broker.run, worker.run)]
for thread in threads:
    thread.start()
client, pipeline, titanic = (kind(*broker.endpoints) for kind in (Client, Pipeline, TitanicClient))
while client.call("mmi.service", b"echo") != b"200":
    pass


def one_by_one() -> None:
    for _ in range(options.count):
        client.call("echo", b"hello")


def windowed() -> None:
    for _ in range(options.count):
        pipeline.send("echo", b"hello")
    for _ in range(options.count):
        pipeline.receive()


def stored() -> None:
    ids = [titanic.submit("echo", b"hello") for _ in range(options.count)]
    for request_id in ids:
        titanic.wait(request_id, 60)
        titanic.close_request(request_id)


def show(name: str, test: Callable[[], None]) -> None:
    began = time.perf_counter()
    test()
    print(f"{name}: {options.count / (time.perf_counter() - began):.0f} calls per second", flush=True)


show("synchronous round-trip test", one_by_one)
show("asynchronous round-trip test", windowed)
show("titanic round-trip test", stored)
for each in (client, pipeline, titanic):
    each.close()
worker.stop()
broker.stop()
