"""Open the MariaDB or MySQL that holds an outbox, by the settings, and explain a refused connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from app.settings.settings import Settings, SettingsRefused
from app.settings.tls import outbox_tls
from db.errors import Unavailable
from db.mariadb.database import MariaDatabase, MariaOptions, maria_options, open_maria

__all__ = ["OutboxUnavailable", "open_outbox_database"]


class OutboxUnavailable(Unavailable):
    """The MariaDB or MySQL of ``outbox_url`` cannot be reached; the text has the reason, if it is known."""


@asynccontextmanager
async def open_outbox_database(settings: Settings) -> AsyncIterator[MariaDatabase]:
    """Yield the database of ``outbox_url``, closed on exit. Raise SettingsRefused, :class:`OutboxUnavailable`."""
    try:
        database = await open_maria(_options(settings))
    except Unavailable as error:
        raise OutboxUnavailable(outbox_tls(settings).blame(error) or str(error)) from error
    except ModuleNotFoundError as error:
        raise SettingsRefused(
            f"HOOKWIRE_OUTBOX_URL: the driver is missing ({error.name}); install the extra: hookwire-server[mariadb]"
        ) from None
    async with aclosing(database):
        yield database


def _options(settings: Settings) -> MariaOptions:
    assert settings.outbox_url is not None, "the caller has checked the setting"
    files = outbox_tls(settings)
    if files.given and not settings.outbox_tls:
        raise SettingsRefused("HOOKWIRE_OUTBOX_TLS is off, and its files are set; turn it on or remove them")
    try:
        tls = files.context() if settings.outbox_tls else None
    except ValueError as error:
        raise SettingsRefused(str(error)) from None
    try:
        return maria_options(settings.outbox_url.get_secret_value(), tls)
    except ValueError as error:
        raise SettingsRefused(f"HOOKWIRE_OUTBOX_URL {error}") from None
