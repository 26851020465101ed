"""A broker with a simulated clock, and messages of its peers as short calls."""

from collections.abc import Callable
from typing import Any

from reqrep.frames import Event, Frames
from reqrep.majordomo.broker import Broker
from reqrep.majordomo.options import BrokerOptions

E = b""
C1, W1, C2, W2 = b"MDPC01", b"MDPW01", b"MDPC02", b"MDPW02"


class Peers:
    """Each call returns the messages that the broker sends because of it."""

    def __init__(self, voter: Callable[[float], bool] | None = None, **options: Any) -> None:
        self.now = 1_000.0
        self.broker = Broker(BrokerOptions(**options), voter)
        self.events: list[Event] = []

    def send(self, *frames: bytes, user: str = "") -> list[Frames]:
        out, events = self.broker.receive(self.now, list(frames), user)
        self.events += events
        return out

    def ready(self, worker: bytes, service: bytes = b"echo") -> list[Frames]:
        return self.send(worker, E, W1, b"\x01", service)

    def request(self, client: bytes, body: bytes = b"hello", service: bytes = b"echo", user: str = "") -> list[Frames]:
        return self.send(client, E, C1, service, body, user=user)

    def reply(self, worker: bytes, client: bytes, body: bytes = b"hello") -> list[Frames]:
        return self.send(worker, E, W1, b"\x03", client, E, body)

    def heartbeat(self, worker: bytes) -> list[Frames]:
        return self.send(worker, E, W1, b"\x04")

    def leave(self, worker: bytes) -> list[Frames]:
        return self.send(worker, E, W1, b"\x05")

    def mmi(self, name: bytes, body: bytes = b"", user: str = "") -> list[bytes]:
        """The body of the answer."""
        ((client, empty, header, service, *answer),) = self.send(b"ops", E, C1, b"mmi." + name, body, user=user)
        assert (client, empty, header, service) == (b"ops", E, C1, b"mmi." + name)
        return answer

    def wait(self, seconds: float) -> list[Frames]:
        """Let the time pass, tick by tick as a shell does."""
        end, out = self.now + seconds, []
        while (at := self.broker.deadline()) is not None and at <= end:
            self.now = max(self.now, at)
            sent, events = self.broker.tick(self.now)
            out += sent
            self.events += events
        self.now = end
        return out

    @property
    def drops(self) -> dict[str, int]:
        return dict(self.broker.counters.drops)


def request_of(worker: bytes, client: bytes, body: bytes = b"hello") -> Frames:
    return [worker, E, W1, b"\x02", client, E, body]


def reply_of(client: bytes, body: bytes = b"hello", service: bytes = b"echo") -> Frames:
    return [client, E, C1, service, body]


def heartbeat_of(worker: bytes) -> Frames:
    return [worker, E, W1, b"\x04"]


def disconnect_of(worker: bytes) -> Frames:
    return [worker, E, W1, b"\x05"]
