"""Settings of an outbox that lies in MariaDB or MySQL; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator

from app.settings.part import SettingsPart

__all__ = ["OutboxSettings"]


class OutboxSettings(SettingsPart):
    """The outbox of ``relay --compat-table`` and ``pump --outbox``, when it is not in PostgreSQL."""

    outbox_url: SecretStr | None = Field(
        None,
        description="For relay --compat-table, relay --table and pump: the MariaDB (10.6 or newer) or MySQL (8.0.15) "
        "that holds the outbox, e.g. mysql://user:secret@host:3306/database; default: it is in PostgreSQL.",
    )
    outbox_mode: Literal["compat", "fast"] = Field(
        "compat",
        description="With OUTBOX_URL: whether a claim is marked in leader_id, like goharvest's; else rows are only "
        "deleted.",
    )
    outbox_tls: bool = Field(False, description="With OUTBOX_URL: require TLS.")
    outbox_tls_ca: Path | None = Field(
        None, description="PEM file of the authorities of that server's certificate; default: the system's."
    )
    outbox_tls_certificate: Path | None = Field(
        None, description="PEM file with our certificate, for a server that requires one."
    )
    outbox_tls_key: Path | None = Field(
        None, description="PEM file with its key; default: it is in the certificate's file."
    )

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
