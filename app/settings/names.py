"""Settings of names; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from pydantic import Field

from app.settings.part import SettingsPart

__all__ = ["NameSettings"]


class NameSettings(SettingsPart):
    """Settings of names that their first use makes."""

    topics_auto_create: bool = Field(True, description="Publishing to an unknown topic creates it.")
    queues_auto_create: bool = Field(True, description="Submitting to an unknown queue creates it.")
    kinds_auto_create: bool = Field(True, description="A task of a kind without settings is accepted.")
    services_auto_create: bool = Field(True, description="A request to an unknown service creates it.")
    names_per_key_max: int = Field(
        10_000, ge=0, le=10_000_000,
        description="Topics that one API key may make by publishing to them, at most; likewise queues and services.",
    )  # fmt: skip
    names_max: int = Field(
        100_000, ge=0, le=10_000_000,
        description="Topics that all callers may make by publishing to them, at most; likewise queues and services.",
    )  # fmt: skip
    names_retention_days: int = Field(
        90, ge=0, le=36_500,
        description="Topics, queues and services that their first use made are removed after so many days without use, "
        "2 days at the least; 0: never. Those with settings made by hand stay.",
    )  # fmt: skip
