"""Settings of browsers' pages and host names; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator

from app.settings.part import SettingsPart

__all__ = ["PageSettings"]

_ORIGIN = re.compile(r"https?://([a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?")
_HOST = re.compile(r"[a-z0-9_-][a-z0-9_.-]{0,252}|[0-9a-f:.]{2,45}")


class PageSettings(SettingsPart):
    """Pages that may publish, host names under which the hub answers, and the name of a person behind a proxy."""

    origins: tuple[str, ...] = Field(
        (),
        description="Origins of web pages whose scripts may publish, comma separated, such as https://shop.example; "
        "pages of other sites may change nothing.",
    )
    hosts: tuple[str, ...] = Field(
        (),
        description="Without API keys: further host names of this hub, comma separated, besides those "
        "of the public URL, the listen address and loopback.",
    )

    actor_header: str = Field(
        "Hookwire-Actor",
        pattern=r"^[A-Za-z][A-Za-z0-9-]{0,99}$",
        description="Without API keys: the header that names the caller in the audit trail, such as X-Forwarded-User "
        "of a proxy that authenticates. The proxy must remove this header from requests of clients.",
    )

    @field_validator("origins", "hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return (
            tuple(part.strip().lower() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [one for one in value if not _ORIGIN.fullmatch(one)]:
            raise ValueError(f"{wrong[0]!r} is no origin; write scheme, host and port, such as https://shop.example")
        return value

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := [one for one in value if not _HOST.fullmatch(one)]:
            raise ValueError(f"{wrong[0]!r} is no host name; write it without scheme and port, such as hub.example")
        return value
