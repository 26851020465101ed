"""Settings of an outbox that lies in MariaDB or MySQL; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

__all__ = ["OutboxSettings"]


class OutboxSettings(BaseSettings):
    """Where the outbox of ``relay --compat-table`` and ``pump --outbox`` is, when not in PostgreSQL."""

    outbox_url: SecretStr | None = Field(
        None,
        description="For relay --compat-table and pump --outbox: the MariaDB (10.6 or newer) or MySQL (8.0.15) that "
        "holds the outbox, e.g. mysql://user:secret@host:3306/database; none: it is in PostgreSQL.",
    )
    outbox_mode: Literal["compat", "fast"] = Field(
        "compat",
        description="With OUTBOX_URL: a claim is marked in leader_id, as goharvest does; or no row is written but to "
        "delete it.",
    )
    outbox_tls: bool = Field(False, description="With OUTBOX_URL: TLS or no connection.")
    outbox_tls_ca: Path | None = Field(
        None, description="PEM file with who signs that server's certificate; none: the system's authorities."
    )
    outbox_tls_certificate: Path | None = Field(
        None, description="PEM file with our certificate, for a server that wants one."
    )
    outbox_tls_key: Path | None = Field(None, description="PEM file with its key; none: it is in the certificate's.")

    @field_validator("outbox_url")
    @classmethod
    def _check_outbox_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value.get_secret_value())
            named = parts.scheme in {"mysql", "mariadb"} and (parts.port is None or parts.port > 0)
        except ValueError:
            named = False
        if not named:
            raise ValueError("must be a URL of one server, mysql://user:secret@host:port/database")
        return value
