"""HAProxy: the system package's balancer, before hubs of the tests."""

import os
import shutil
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from scripts.servers.missing import MissingServerError
from scripts.servers.probe import Probe
from scripts.servers.process import ServerProcess

_CONFIGURATION = """\
global
    maxconn 1000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout http-keep-alive 60s
frontend hooks
    bind 127.0.0.1:{port}
    default_backend hubs
backend hubs
    option httpchk GET /readyz
    http-check expect status 200
    default-server check inter 500ms fall 1 rise 1
"""


class HAProxy(ServerProcess):
    """A balancer before hubs on loopback, by their ports; it asks each for /readyz twice a second."""

    software: ClassVar[str] = "HAProxy"
    port_names: ClassVar[tuple[str, ...]] = ("haproxy",)
    probe: ClassVar[Probe] = Probe(b"GET /healthz HTTP/1.0\r\n\r\n", b"HTTP/1.")

    def __init__(self, name: str, folder: Path, hub_ports: Sequence[int]) -> None:
        super().__init__(name, folder)
        self._hub_ports = hub_ports

    @property
    def address(self) -> str:
        """Return the URL at which the hubs are reached."""
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def version(self) -> str:
        """Return a constant: the tests hold for every version."""
        return "unknown"

    def _prepare(self) -> None:
        hubs = [f"    server hub{number} 127.0.0.1:{port}\n" for number, port in enumerate(self._hub_ports)]
        self._file.write_text(_CONFIGURATION.format(port=self.port) + "".join(hubs))

    @property
    def _file(self) -> Path:
        return self.folder / "haproxy.cfg"

    def _command(self) -> list[str]:
        program = shutil.which("haproxy", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
        if program is None:
            raise MissingServerError("HAProxy is missing: run scripts/install-servers.")
        return [program, "-db", "-f", str(self._file)]
