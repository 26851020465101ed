"""PgBouncer: the system package's pooler, before a PostgreSQL server of the tests."""

import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit, urlunsplit

from scripts.servers.missing import MissingServerError
from scripts.servers.postgres import start_up_packet
from scripts.servers.probe import Probe
from scripts.servers.process import ServerProcess

# PgBouncer refuses an unknown parameter unless its settings ignore it.
_IGNORED = (
    "extra_float_digits", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout",
    "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "jit", "enable_seqscan",
    "plan_cache_mode", "search_path",
)  # fmt: skip
_CONFIGURATION = """\
[databases]
* = host={host} port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 3
max_client_conn = 200
ignore_startup_parameters = {ignored}
"""


class PgBouncer(ServerProcess):
    """A pooler in transaction or session mode; every database of the server behind it is reached by its name.

    Every user is the superuser `postgres`. Root runs it as an unprivileged account, because it refuses to run as root.
    """

    software: ClassVar[str] = "PgBouncer"
    port_names: ClassVar[tuple[str, ...]] = ("pgbouncer",)
    probe: ClassVar[Probe] = Probe(start_up_packet(user="postgres", database="postgres"), b"R")

    def __init__(self, name: str, folder: Path, server_url: str, mode: Literal["transaction", "session"]) -> None:
        super().__init__(name, folder)
        self._server = urlsplit(server_url)
        self._mode = mode

    @property
    def address(self) -> str:
        """Return the maintenance database through the pooler."""
        return self.through(urlunsplit(self._server))

    @cached_property
    def version(self) -> str:
        """Return a constant: the tests hold for every version."""
        return "unknown"

    def through(self, database_url: str) -> str:
        """Return the URL of one of the server's databases through the pooler."""
        return urlunsplit(urlsplit(database_url)._replace(netloc=f"postgres@127.0.0.1:{self.port}"))

    def _prepare(self) -> None:
        configuration = _CONFIGURATION.format(
            host=self._server.hostname, server_port=self._server.port, port=self.port, mode=self._mode,
            ignored=",".join(_IGNORED),
        )  # fmt: skip
        self._file.write_text(configuration)
        self._file.chmod(0o644)

    @property
    def _file(self) -> Path:
        return self.folder / "pgbouncer.ini"

    def _command(self) -> list[str]:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
        if program is None:
            raise MissingServerError("PgBouncer is missing: run scripts/install-servers.")
        account = ["-u", "nobody"] if os.geteuid() == 0 else []
        return [program, *account, str(self._file)]
