"""Settings of access, host names and browsers' pages; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from app.settings.file import SettingsRefused
from app.settings.part import SettingsPart

__all__ = ["AccessSettings"]

_ORIGIN = re.compile(r"https?://([a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?")
_FILE_BYTES_MAX = 1_000
_HOST = re.compile(r"[a-z0-9_-][a-z0-9_.-]{0,252}|[0-9a-f:.]{2,45}")


class AccessSettings(SettingsPart):
    """Whether callers need API keys, the first key, pages that may publish, names of the hub and of callers."""

    access: Literal["keys", "proxy", "open"] | None = Field(
        None,
        description="Authentication of requests: keys (API keys; default in production), proxy (by a proxy before "
        "this hub), open (none; default in development, refused in production).",
    )
    hub_access: Literal["open", "keys"] = Field(
        "open", description="With API keys: whether POST /hub and the topic URLs, WebSub's public part, need one too."
    )
    bootstrap_key: SecretStr | None = Field(
        None,
        description="Text of the first API key, which the hub makes at its start while no key exists; its scope is "
        "admin. `hookwire keys generate` prints one.",
    )
    bootstrap_key_file: Path | None = Field(
        None, description="File with the text of the first API key, such as a mounted secret."
    )
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

    @field_validator("bootstrap_key")
    @classmethod
    def _check_bootstrap_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and (fault := _weakness(value.get_secret_value())):
            raise ValueError(fault)
        return value

    @property
    def names_first_key(self) -> bool:
        """Return whether the hub is to make the first key."""
        return self.bootstrap_key is not None or self.bootstrap_key_file is not None

    def first_key(self) -> str | None:
        """Return the text of the first key; raises :class:`SettingsRefused` for a file without one."""
        if self.bootstrap_key is not None:
            return self.bootstrap_key.get_secret_value()
        path = self.bootstrap_key_file
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                text = file.read(_FILE_BYTES_MAX).decode(errors="replace").strip()
        except OSError as error:
            raise SettingsRefused(f"HOOKWIRE_BOOTSTRAP_KEY_FILE: {path}: {error.strerror}") from None
        if fault := _weakness(text):
            raise SettingsRefused(f"HOOKWIRE_BOOTSTRAP_KEY_FILE: {path}: the text {fault}")
        return text


def _weakness(text: str) -> str:
    """Return what keeps the text from being a key. Its module loads the database's driver, so few commands do."""
    from hub.keys import weakness

    return weakness(text)
