"""Storage: the database, embedded or given, migrated and checked, with the keys that open its secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from app.settings.settings import Settings
from db.embedded.error import EmbeddedError
from db.embedded.identity import ClusterLost
from db.migrate import migrate
from db.pool import Database, PoolOptions, Session, open_database
from db.replication.standby_fence import Required, StandbyFence
from db.secret_box import SecretBox, SecretBoxError, load_or_create_key_file, parse_keys
from event.identity import Incarnation
from runtime.periodic import Periodic
from runtime.process import last_act

if TYPE_CHECKING:
    from db.embedded.server import EmbeddedServer

__all__ = ["EmbeddedWatch", "Storage", "incarnation_of", "open_storage", "present_secrets"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Storage:
    """The open database and its keys. ``embedded`` is None with a configured database."""

    database: Database
    incarnation: Incarnation
    secrets: SecretBox
    embedded: EmbeddedServer | None


class EmbeddedWatch(Periodic):
    """Restarts the embedded server when it does not answer. For other services the database was down for a while.

    ``ClusterLost`` ends the process: no action restores the data, and a new cluster would hide the loss.
    """

    name = "embedded database"

    def __init__(self, server: EmbeddedServer) -> None:
        super().__init__(None)
        self._server = server

    async def once(self) -> None:
        """Start the server again if it does not answer."""
        try:
            await self._server.start()
        except ClusterLost:
            raise
        except EmbeddedError as error:
            _log.error("embedded_database_down", error=str(error))


def open_secrets(settings: Settings) -> SecretBox:
    """Return the keys of the settings, or of a key file in the data directory (made on first use, mode 0600)."""
    if settings.secret_keys is not None:
        return parse_keys(settings.secret_keys.get_secret_value())
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return load_or_create_key_file(settings.key_file)


def present_secrets(settings: Settings) -> SecretBox | None:
    """Return the keys of the settings, or of the key file; None if there are none. No file is made.

    Raise SecretBoxError, also if this account may not look for the file.
    """
    if settings.secret_keys is None:
        try:
            # Not is_file(): it raises for a folder of another account, or says no (Python 3.14).
            settings.key_file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SecretBoxError(f"the key file {settings.key_file} cannot be used: {error.strerror}") from error
    return open_secrets(settings)


async def incarnation_of(session: Session) -> Incarnation:
    """Return the name of the installation, with those of before. Raise ``db.errors.DatabaseError``."""
    installation = await session.fetchrow("event.installation")
    assert installation is not None, "the first migration writes the installation's row"
    former = await session.fetch("installation.former")
    return Incarnation(installation["incarnation"], ((row["through_id"], row["incarnation"]) for row in former))


async def _migrate(url: str) -> None:
    done = await migrate(url)
    if done.to_record:
        _log.info("migration_history_replaced", migrations=len(done.to_record), last=done.to_record[-1].label)
    if done.to_run:
        _log.info("migrated", migrations=len(done.to_run), last=done.to_run[-1].label)


@asynccontextmanager
async def open_storage(settings: Settings, *, is_migrated: bool = False) -> AsyncIterator[Storage]:
    """Start or reach the database, migrate it, open the pool. ``is_migrated``: no migration of it is pending.

    Raise EmbeddedError, DatabaseError, SecretBoxError.
    """
    async with AsyncExitStack() as stack:
        embedded = None
        if settings.database_url is None:
            from db.embedded.server import EmbeddedOptions, EmbeddedServer

            embedded = EmbeddedServer(EmbeddedOptions(settings.data_dir))
            await embedded.start()
            # End the server too: otherwise it would outlive its service, and its files would not be safe to copy.
            stack.enter_context(last_act(embedded.ask_to_stop))
            stack.push_async_callback(embedded.stop)
            url = embedded.dsn
        else:
            url = settings.database_url.get_secret_value()
        if not is_migrated:
            await _migrate(url)
        fence = StandbyFence(Required.parse(settings.standby_fence)) if settings.standby_fence else None
        database = await open_database(PoolOptions(url, connections_max=settings.database_connections_max, fence=fence))
        stack.push_async_callback(database.aclose)
        incarnation = await incarnation_of(database)
        if await database.fetchval("queue.adopt_transaction_ids"):
            _log.warning("transaction_ids_adopted", reason="the database was restored from another server")
        yield Storage(database, incarnation, open_secrets(settings), embedded)
