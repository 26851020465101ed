"""Warnings about a subscription: what a person who looks at it should think about. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from egress.guard import GuardPolicy
from egress.url import UrlRefused, parse_target

__all__ = ["ScopeWarning", "warnings_of"]

ScopeWarning = Literal[
    "matches_everything", "plain_http", "refused_callback", "never_answered", "never_verified", "old_secret"
]
_SECRET_AGE_MAX: Final = timedelta(days=365)
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def warnings_of(
    row: Mapping[str, Any], secret_at: datetime | None, policy: GuardPolicy, now: datetime
) -> list[ScopeWarning]:
    """Return the warnings about a subscription, as ``subscription.get`` reads it.

    ``secret_at``: when its newest signing key was made; None without one. ``policy`` judges its callback.
    """
    if row["state"] not in ("active", "disabled"):
        return []
    is_called, is_unanswered = bool(row["callback"]), row["last_success_at"] is None
    found: dict[ScopeWarning, bool] = {
        "matches_everything": row["topic"] == "#",
        "plain_http": is_called and _is_plain(row["callback"]),
        "refused_callback": is_called and _is_refused(row["callback"], policy),
        "never_answered": is_called and is_unanswered and row["failing_since"] is not None,
        "never_verified": row["protocol"] == "webhook" and is_unanswered and row["request_origin"] is None,
        "old_secret": secret_at is not None and now - secret_at > _SECRET_AGE_MAX,
    }
    return [warning for warning, holds in found.items() if holds]


def _is_plain(callback: str) -> bool:
    """Return whether events travel unencrypted over a network; on the hub's own machine they do not travel."""
    return callback.startswith("http://") and urlsplit(callback).hostname not in _LOCAL


def _is_refused(callback: str, policy: GuardPolicy) -> bool:
    try:
        parse_target(callback, policy)
    except UrlRefused:
        return True
    return False
