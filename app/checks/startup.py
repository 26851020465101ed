"""The checks that decide whether the service may start."""

from __future__ import annotations

import os
from collections.abc import Sequence

import structlog

from app.checks.amqp_sources import amqp_source_checks
from app.checks.check import Check, ChecksRefused
from app.checks.database import database_checks, made_checks, server_only_checks
from app.checks.keys import key_checks
from app.checks.process import descriptor_check, guard_check
from app.checks.settings import settings_checks
from app.settings.settings import Settings
from db.pool import PoolOptions

__all__ = ["early_checks", "startup_checks"]

_log = structlog.get_logger(__name__)


async def early_checks(settings: Settings) -> list[Check]:
    """Check the settings and a configured server before anything is written to it, so that a replica is reported as
    such. Return the checks of the server.

    Raise ``ChecksRefused``. Opening the database reports a server that cannot be reached.
    """
    _refuse(settings_checks(settings, os.environ))
    if settings.database_url is None:
        return []
    found = await server_only_checks(settings, PoolOptions(settings.database_url.get_secret_value()))
    _refuse(found)
    return found


async def startup_checks(
    settings: Settings, options: PoolOptions, listen_port: int, early: Sequence[Check] = (), *,
    serves_api: bool = True, reads_amqp: bool = True,
) -> list[Check]:  # fmt: skip
    """Return all checks, once the database is open and migrated; log warnings. ``early``: the checks of the server, if
    they were made before. The migrations have been compared by ``db.migrate``.

    Raises ``ChecksRefused``.
    """
    of_database = [*early, *await made_checks(options)] if early else await database_checks(settings, options)
    found = [
        *settings_checks(settings, os.environ),
        descriptor_check(settings),
        await guard_check(settings, listen_port),
        *of_database,
        *(await key_checks(settings, options) if serves_api else ()),
        *(await amqp_source_checks(settings, options) if reads_amqp else ()),
    ]
    _refuse(found)
    for check in found:
        if check.level == "warn":
            _log.warning("check", check=check.id, subject=check.subject, finding=check.detail, cure=check.cure)
    return found


def _refuse(found: Sequence[Check]) -> None:
    refused = [check for check in found if check.level == "refuse"]
    if refused:
        raise ChecksRefused(refused)
