"""Round-trip demonstrator: the same calls one by one, then windowed, through a broker of this process.

It starts when the broker says that the worker is there, not after a pause: under load any pause is too short.
"""

import threading
import time
from collections.abc import Callable

from failures import parser

from hookwire.services import Client, Pipeline, Worker
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram

options = parser(__doc__, count=5_000).parse_args()
broker = BrokerProgram(["tcp://127.0.0.1:*"], BrokerOptions())
worker = Worker(*broker.endpoints)
worker.frames_service("echo")(lambda frames: frames)
threads = [threading.Thread(target=run) for run in (broker.run, worker.run)]
for thread in threads:
    thread.start()
client, pipeline = Client(*broker.endpoints), Pipeline(*broker.endpoints)
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


def show(name: str, test: Callable[[], None]) -> None:
    began = time.perf_counter()
    test()
    print(f"{name}: {options.count / (time.perf_counter() - began):.0f} calls per second", flush=True)


show("synchronous round-trip test", one_by_one)
show("asynchronous round-trip test", windowed)
client.close()
pipeline.close()
worker.stop()
broker.stop()
