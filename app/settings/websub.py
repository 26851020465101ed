"""Settings of WebSub's verifications: limits for untrusted requesters. `Settings` has them with all others."""

from __future__ import annotations

from pydantic import Field

from app.settings.part import SettingsPart

__all__ = ["VerificationSettings"]


class VerificationSettings(SettingsPart):
    """Limits for untrusted requesters (FS-04, FX-07). A requester is an IPv4 address or an IPv6 /64."""

    websub_verification_slots: int = Field(
        64,
        ge=1,
        le=1024,
        description="Verifications in flight in this process; half of them at most for callback hosts without an "
        "active subscription.",
    )
    websub_first_connect_seconds: float = Field(
        2.0, ge=0.1, le=10, description="Time limit of the connection of a first verification, which is tried again."
    )
    websub_verifications_per_minute_host: int = Field(
        300, ge=1, le=1_000_000, description="Verifications a minute of one callback host; more get 429."
    )
    websub_verifications_burst_host: int = Field(
        0, ge=0, le=1_000_000, description="Verifications at once; 0: as many as in a minute."
    )
    websub_verifications_per_minute_requester: int = Field(
        300, ge=1, le=1_000_000, description="Verifications a minute for one requester; more get 429."
    )
    websub_verifications_burst_requester: int = Field(
        0, ge=0, le=1_000_000, description="Verifications at once; 0: as many as in a minute."
    )
    websub_pending_requester_max: int = Field(
        256, ge=0, le=1_000_000, description="Requests of one requester that may wait for verification; 0: any number."
    )
    websub_subscriptions_host_max: int = Field(
        1_000, ge=0, le=10_000_000, description="Subscriptions of one callback host, more get 403; 0: any number."
    )
    websub_subscriptions_requester_max: int = Field(
        1_000,
        ge=0,
        le=10_000_000,
        description="Subscriptions of one requester, more get 403; 0: any number.",
    )
