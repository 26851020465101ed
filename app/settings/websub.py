"""Settings of WebSub's verifications: what strangers may ask for. `Settings` has them with all others."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings

__all__ = ["VerificationSettings"]


class VerificationSettings(BaseSettings):
    """How much a stranger may have the hub do (FS-04, FX-07). A requester is an IPv4 address or an IPv6 /64."""

    websub_verification_slots: int = Field(
        64,
        ge=1,
        le=1024,
        description="Verifications in flight in this process; half of them at most for callback hosts without an "
        "active subscription.",
    )
    websub_first_connect_seconds: float = Field(
        2.0, ge=0.1, le=10, description="For the connection of a first verification, behind which another one is tried."
    )
    websub_verifications_per_minute_host: int = Field(
        300, ge=1, le=1_000_000, description="Verifications a minute of one callback host; beyond them 429."
    )
    websub_verifications_burst_host: int = Field(
        0, ge=0, le=1_000_000, description="So many at once; 0: as many as in a minute."
    )
    websub_verifications_per_minute_requester: int = Field(
        300, ge=1, le=1_000_000, description="Verifications a minute that one requester may ask for; beyond them 429."
    )
    websub_verifications_burst_requester: int = Field(
        0, ge=0, le=1_000_000, description="So many at once; 0: as many as in a minute."
    )
    websub_pending_requester_max: int = Field(
        256, ge=0, le=1_000_000, description="Requests of one requester that may wait for verification; 0: any number."
    )
    websub_subscriptions_host_max: int = Field(
        1_000, ge=0, le=10_000_000, description="Subscriptions of one callback host, beyond them 403; 0: any number."
    )
    websub_subscriptions_requester_max: int = Field(
        1_000,
        ge=0,
        le=10_000_000,
        description="Subscriptions that one requester asked for, beyond them 403; 0: any number.",
    )
