"""Checks of a broker: the doctor tries what the relay will do."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

from app.checks.brokers import broker_checks
from tests.app.test_checks import settings_of


async def test_the_doctor_tries_what_the_relay_will_do(rabbitmq: Any, tmp_path: Path) -> None:
    """GW-10: it said ok for a user who may not declare the lock, so that no event left."""
    user = f"doctor-{secrets.token_hex(4)}"
    await asyncio.to_thread(rabbitmq.ctl, "add_user", user, "secret")
    levels = []
    for configure in ("^$", ".*"):
        await asyncio.to_thread(rabbitmq.ctl, "set_permissions", user, configure, ".*", ".*")
        url = rabbitmq.url.replace("guest:guest", f"{user}:secret")
        levels += [check.level for check in await broker_checks(settings_of(tmp_path, amqp_url=url))]

    assert levels == ["note", "refuse", "note", "ok"]
