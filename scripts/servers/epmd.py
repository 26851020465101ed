"""Erlang's port mapper, one of our own for each RabbitMQ node: the machine's shared one is left alone."""

import shutil
from typing import ClassVar

from scripts.servers.missing import MissingServerError
from scripts.servers.probe import Probe
from scripts.servers.process import ServerProcess


class EpmdServer(ServerProcess):
    """Tells `rabbitmqctl` on which port the node with a given name listens. In the foreground, on loopback."""

    software: ClassVar[str] = "epmd"
    port_names: ClassVar[tuple[str, ...]] = ("epmd",)
    probe: ClassVar[Probe] = Probe(b"\x00\x01n")  # NAMES_REQ of the distribution protocol

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    @property
    def version(self) -> str:
        """Return a constant: epmd does not report its version, and RabbitMQ's log names the version of Erlang."""
        return "unknown"

    def _prepare(self) -> None:
        if shutil.which("epmd") is None:
            raise MissingServerError("Erlang's epmd, which RabbitMQ needs, is missing: run scripts/install-servers.")

    def _command(self) -> list[str]:
        return ["epmd", "-port", str(self.port), "-address", "127.0.0.1"]
