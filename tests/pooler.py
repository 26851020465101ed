"""A pooler before the tests' PostgreSQL 18, for the length of a block."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from scripts.servers.given import GivenServer
from scripts.servers.missing import MissingServerError
from scripts.servers.pgbouncer import PgBouncer
from scripts.servers.postgres import PostgresServer


@contextmanager
def pooled(
    server: PostgresServer | GivenServer, folder: Path, mode: Literal["transaction", "session"]
) -> Iterator[PgBouncer]:
    """PgBouncer in this mode; its folder is made and thrown away."""
    pooler = PgBouncer("pgbouncer", folder / f"pgbouncer-{mode}", server.url, mode)
    try:
        pooler.start()
    except MissingServerError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield pooler
    finally:
        pooler.discard()
