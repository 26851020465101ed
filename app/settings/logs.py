"""Settings of the log's wide lines; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

__all__ = ["LogSettings"]


class LogSettings(BaseSettings):
    """How many events have a line in the log for each step (HO-10)."""

    log_sample_share: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the events with a log line for the request that stored them and for each attempt; "
        "0: none, 1: all. Each process chooses the same events.",
    )
