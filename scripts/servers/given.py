"""A server whose address the environment supplied: it is used, never started, hurt or stopped (EC-P09, EC-K06)."""

from typing import NoReturn
from urllib.parse import urlsplit

from scripts.servers.missing import MissingServerError
from scripts.servers.probe import Probe

_DEFAULT_PORTS = {"postgresql": 5432, "postgres": 5432, "mysql": 3306, "amqp": 5672, "xmpp": 5222, "": 9092}


class GivenServer:
    """Stands in for a booted server wherever only its address is needed.

    Everything else (`kill`, `pause`, `ctl`, ...) raises MissingServerError with one sentence: a test that hurts its
    server needs one that the suite booted itself.
    """

    def __init__(self, software: str, variable: str, address: str) -> None:
        self.software = software
        self.variable = variable
        self.address = self.url = self.bootstrap = address
        self.version = f"of {variable}"
        self.boot_seconds: float | None = None

    def require(self, probe: Probe) -> None:
        """Raises MissingServerError unless the server answers."""
        first = self.address.partition(",")[0]  # Kafka's may be a list
        place = urlsplit(first if "://" in first else f"//{first}")
        port = place.port or _DEFAULT_PORTS.get(place.scheme, 0)
        if not probe.is_answered(place.hostname or "127.0.0.1", port):
            raise MissingServerError(f"{self.software} does not answer at the address that {self.variable} names.")

    def discard(self) -> None:
        """Nothing to end: it is not ours."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingServerError(
            f"'{name}' needs a {self.software} that the suite booted itself: unset {self.variable} for this test."
        )
