"""Real brokers, workers and clients for the tests: threads of this process, ended by the test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hookwire.services.client import Client
from hookwire.services.presence import HeartbeatOptions
from hookwire.services.worker import Worker
from reqrep.majordomo.options import BrokerOptions
from reqrep.majordomo.program import BrokerProgram

WAIT_SECONDS = 60
FREE = "tcp://127.0.0.1:*"
FAST = HeartbeatOptions(interval_seconds=0.2)
"""Who is silent for 0.6 s counts as gone."""
PATIENT = HeartbeatOptions(interval_seconds=20.0)
PATIENT_BROKER = BrokerOptions(heartbeat_seconds=20.0)
"""For tests whose subject is no death: on a slow machine, silence for 0.6 s means nothing."""


@contextmanager
def threaded(run: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """Run it in a thread; stop it and wait for its end on exit."""
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


@contextmanager
def running_broker(endpoint: str = FREE, options: BrokerOptions | None = None, **plans: Any) -> Iterator[BrokerProgram]:
    program = BrokerProgram([endpoint], options or BrokerOptions(heartbeat_seconds=0.2), **plans)
    with threaded(program.run, program.stop):
        yield program


@contextmanager
def running_worker(*endpoints: str, concurrency: int = 1, **options: Any) -> Iterator[Worker]:
    """A worker of the service `echo`."""
    worker = Worker(*endpoints, **{"heartbeat": FAST, "reconnect_seconds": 0.1} | options)
    worker.frames_service("echo", concurrency=concurrency)(lambda frames: frames)
    with threaded(worker.run, worker.stop):
        yield worker


@contextmanager
def client_of(*endpoints: str, **options: Any) -> Iterator[Client]:
    """A client that waits long enough for a busy machine."""
    client = Client(*endpoints, **{"timeout_seconds": 5.0, "tries": 6} | options)
    try:
        yield client
    finally:
        client.close()
