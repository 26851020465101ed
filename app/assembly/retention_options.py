"""Retention options: the settings of retention in the form of the room ``app.maintenance``."""

from __future__ import annotations

from app.maintenance.retention import RetentionOptions
from app.settings.settings import Settings

__all__ = ["retention_options"]


def retention_options(settings: Settings) -> RetentionOptions:
    """Return for how many days each thing is kept."""
    return RetentionOptions(
        settings.retention_days, settings.dead_letter_retention_days, settings.history_retention_days,
        settings.gold_retention_days, settings.names_retention_days,
    )  # fmt: skip
