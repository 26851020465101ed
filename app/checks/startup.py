"""The checks that decide whether the service may start."""

from __future__ import annotations

import os
from collections.abc import Sequence

import structlog

from app.checks.amqp_sources import amqp_source_checks
from app.checks.check import Check, ChecksRefused
from app.checks.database import opened_checks, server_only_checks
from app.checks.keys import key_checks
from app.checks.process import descriptor_check, guard_check
from app.checks.settings import settings_checks
from app.settings.settings import Settings
from db.pool import Database, PoolOptions

__all__ = ["early_checks", "startup_checks"]

_log = structlog.get_logger(__name__)


async def early_checks(settings: Settings) -> Check | None:
    """Check the settings and a configured server before anything is written to it, so that a replica is reported as
    such.

    Return the check of its sessions, which takes a second connection and need not be repeated. None: it was not made,
    as on a server that refused the connection; opening the database reports that. Raise ``ChecksRefused``.
    """
    _refuse(settings_checks(settings, os.environ))
    if settings.database_url is None:
        return None
    found = await server_only_checks(settings, PoolOptions(settings.database_url.get_secret_value()))
    _refuse(found)
    return next((check for check in found if check.subject == "sessions"), None)


async def startup_checks(
    settings: Settings, options: PoolOptions, listen_port: int, sessions: Check | None = None, *,
    serves_api: bool = True, reads_amqp: bool = True, pool: Database | None = None,
) -> list[Check]:  # fmt: skip
    """Return the checks of a start, once the database is open and migrated; log warnings, and checks that could not be
    made. ``sessions`` is of :func:`early_checks`. The server itself is asked again: the pool may have found another
    primary. It is asked over a session of the ``pool``, or over a connection with its ``options``.

    Raises ``ChecksRefused``.
    """
    found = [
        *settings_checks(settings, os.environ),
        descriptor_check(settings),
        await guard_check(settings, listen_port),
        *await opened_checks(settings, options, sessions, pool),
        *(await key_checks(settings, options) if serves_api else ()),
        *(await amqp_source_checks(settings, options) if reads_amqp else ()),
    ]
    _refuse(found)
    for check in found:
        if check.is_finding:
            _log.warning("check", check=check.id, subject=check.subject, finding=check.detail, cure=check.cure)
    return found


def _refuse(found: Sequence[Check]) -> None:
    refused = [check for check in found if check.level == "refuse"]
    if refused:
        raise ChecksRefused(refused)
