"""app/web/api/subscribing/scope_warnings.py: what is told about a subscription, and what is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.web.api.subscribing.scope_warnings import warnings_of
from egress.guard import GuardPolicy
from tests.app.conftest import RunHub

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WELL = {
    "state": "active", "topic": "orders.#", "callback": "https://a.example/hook", "protocol": "webhook",
    "last_success_at": NOW, "failing_since": None, "request_origin": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "days", "told"),
    [
        ({}, 365, []),
        ({"topic": "#"}, 0, ["matches_everything"]),
        ({"callback": "http://a.example/hook"}, 0, ["plain_http"]),
        ({"callback": "http://localhost/hook"}, 0, []),
        ({"callback": "https://a.example:22/hook"}, 0, ["refused_callback"]),
        ({"last_success_at": None}, 0, ["never_verified"]),
        ({"last_success_at": None, "request_origin": "hub.example"}, 0, []),
        ({"last_success_at": None, "failing_since": NOW}, 0, ["never_answered", "never_verified"]),
        ({}, 366, ["old_secret"]),
        ({"callback": "", "protocol": "pull", "last_success_at": None}, None, []),
        ({"state": "gone", "topic": "#"}, 999, []),
    ],
)
def test_each_warning_has_its_reason(change: dict[str, Any], days: int | None, told: list[str]) -> None:
    """CN-09."""
    secret_at = None if days is None else NOW - timedelta(days=days)
    policy = GuardPolicy(allow_hosts=("localhost",))
    assert warnings_of(WELL | change, secret_at, policy, NOW) == told


async def test_a_subscription_shows_its_warnings(running_hub: RunHub) -> None:
    """CN-09: the age of the secret is that of the newest key."""
    async with running_hub() as hub:
        one = (await hub.subscribe("#", "http://127.0.0.1:9000/hook"))["id"]
        await hub.sql("UPDATE hookwire.subscription_secrets SET created_at = now() - interval '400 days'")
        shown = (await hub.client.get(f"/subscriptions/{one}")).json()["warnings"]
        await hub.client.post(f"/subscriptions/{one}/keys", json={})
        after = (await hub.client.get(f"/subscriptions/{one}")).json()["warnings"]

        assert (shown, after) == (
            ["matches_everything", "never_verified", "old_secret"], ["matches_everything", "never_verified"],
        )  # fmt: skip
