"""Failures of commands: their message and their exit code. Any other exception is a programming error."""

from __future__ import annotations

__all__ = ["CommandFailed", "explained"]


class CommandFailed(Exception):
    """The command has failed: it prints one sentence on standard error and exits with a code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def explained(error: Exception) -> CommandFailed | None:
    """Return the message for the user; None for an unexpected error. Import only after a failure."""
    if isinstance(error, CommandFailed):
        return error
    from app.assembly.outbox_database import OutboxUnavailable
    from app.checks.check import ChecksRefused
    from app.settings.settings import SettingsRefused
    from app.web.server import ListenError
    from db.embedded.error import EmbeddedError
    from db.embedded.identity import ClusterLost
    from db.errors import DatabaseError, TooManyConnections
    from db.migrate import MigrationRefused
    from db.secret_box import SecretBoxError
    from relay.sink import SinkUnavailable

    told: tuple[tuple[type[Exception], int, str], ...] = (
        (ChecksRefused, 1, "{}"),
        (MigrationRefused, 1, "{}"),
        (SettingsRefused, 2, "{}"),
        (ListenError, 2, "{}"),
        (SecretBoxError, 2, "{} (HOOKWIRE_SECRET_KEYS, or else secret.keys in HOOKWIRE_DATA_DIR)"),
        (ClusterLost, 1, "{}"),
        (EmbeddedError, 3, "{}"),
        (SinkUnavailable, 3, "{} (see HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS)"),
        (OutboxUnavailable, 3, "the outbox's database cannot be used: {} (see HOOKWIRE_OUTBOX_URL)"),
        (
            TooManyConnections,
            3,
            "the database takes no more connections: {} (see HOOKWIRE_DATABASE_CONNECTIONS_MAX, and max_connections of "
            "the server)",
        ),
        (DatabaseError, 3, "the database cannot be used: {} (see HOOKWIRE_DATABASE_URL)"),
    )
    return next(
        (CommandFailed(words.format(error), code) for kind, code, words in told if isinstance(error, kind)), None
    )
