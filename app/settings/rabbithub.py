"""Settings of RabbitHub's URLs; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from app.settings.part import SettingsPart
from webhooks.custom_header import is_coding, is_ours, is_private

__all__ = ["RabbitHubSettings"]

_HEADER_NAME = r"^([A-Za-z0-9-]{1,100})?$"


class RabbitHubSettings(SettingsPart):
    """Options in which RabbitHub installations differ."""

    rabbithub_mirror: bool = Field(
        False,
        description="AMQP gets the messages of RabbitHub's exchanges, each in an exchange of its name and type. "
        "`amqp.mirror` of an exchange wins.",
    )
    rabbithub_message_id_header: str = Field(
        "",
        pattern=_HEADER_NAME,
        description="Header in which RabbitHub's publishers and subscribers find a message's id; empty: no header.",
    )
    rabbithub_correlation_id_header: str = Field(
        "",
        pattern=_HEADER_NAME,
        description="Header of a RabbitHub publish that is logged, returned and forwarded; empty: no header.",
    )
    rabbithub_append_hub_topic: bool = Field(
        True, description="RabbitHub's subscribers get `hub.topic=<routing key>` after their callback's own query."
    )
    rabbithub_on_http_error: Literal["requeue", "dead_letter"] = Field(
        "requeue",
        description="A message that a RabbitHub subscriber refuses: tried again by the schedule, or a dead letter at "
        "once. Without an answer it is always tried again.",
    )
    rabbithub_deactivate: Literal["never", "first", "limit"] = Field(
        "never",
        description="Failed deliveries make a RabbitHub subscription inactive: never, at the first failure, or after "
        "more than RABBITHUB_ERRORS_MAX within RABBITHUB_ERRORS_SECONDS.",
    )
    rabbithub_errors_max: int | None = Field(
        None, ge=1, le=1_000_000, description="With RABBITHUB_DEACTIVATE=limit only: allowed failures."
    )
    rabbithub_errors_seconds: int | None = Field(
        None, ge=1, le=31_536_000, description="With RABBITHUB_DEACTIVATE=limit only: the period of these failures."
    )
    rabbithub_tell_expiry_days: int = Field(
        0,
        ge=0,
        le=3650,
        description="Time before the end of a RabbitHub lease at which an operator event announces it; 0: never.",
    )

    @field_validator("rabbithub_message_id_header", "rabbithub_correlation_id_header")
    @classmethod
    def _check_header(cls, value: str) -> str:
        if is_ours(value.lower()) or is_coding(value.lower()):
            raise ValueError("must not be a header that the hub sets itself")
        if is_private(value.lower()):
            raise ValueError("must not be a header that may hold a publisher's secret, such as Authorization")
        return value

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        limits = (self.rabbithub_errors_max, self.rabbithub_errors_seconds)
        if (self.rabbithub_deactivate == "limit") != all(limits) or any(limits) != all(limits):
            raise ValueError(
                "rabbithub_errors_max and rabbithub_errors_seconds go with rabbithub_deactivate=limit, both or neither"
            )
        return self
