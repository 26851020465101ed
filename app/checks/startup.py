"""The checks that decide whether the service may start."""

from __future__ import annotations

import os
from collections.abc import Sequence

import structlog

from app.checks.amqp_sources import amqp_source_checks
from app.checks.check import Check, ChecksRefused
from app.checks.database import database_checks
from app.checks.keys import key_checks
from app.checks.process import descriptor_check, guard_check
from app.checks.settings import settings_checks
from app.settings.settings import Settings
from db.pool import PoolOptions

__all__ = ["early_checks", "startup_checks"]

_log = structlog.get_logger(__name__)
_SCHEMA = ("SC-08", "SC-10", "RR-05", "GB-05")


async def early_checks(settings: Settings) -> None:
    """Check the settings. Check a configured server before anything is written to it, so that a replica is reported as
    such.

    Raise ``ChecksRefused``. Opening the database reports a server that cannot be reached.
    """
    _refuse(settings_checks(settings, os.environ))
    if settings.database_url is None:
        return
    found = await database_checks(settings, PoolOptions(settings.database_url.get_secret_value()))
    _refuse([check for check in found if check.id not in _SCHEMA])


async def startup_checks(
    settings: Settings, options: PoolOptions, listen_port: int, *, serves_api: bool = True, reads_amqp: bool = True
) -> list[Check]:
    """Return all checks, once the database is open and migrated; log warnings.

    Raises ``ChecksRefused``.
    """
    found = [
        *settings_checks(settings, os.environ),
        descriptor_check(settings),
        await guard_check(settings, listen_port),
        *await database_checks(settings, options),
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
