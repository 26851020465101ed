"""Settings of queues and tasks; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

__all__ = ["JobsSettings"]


class JobsSettings(BaseSettings):
    """Settings of the room `jobs`."""

    queues_auto_create: bool = Field(True, description="Submitting to an unknown queue makes it.")
    temporary_queues_max: int = Field(1_000, ge=0, le=100_000, description="Temporary queues there may be at once.")
