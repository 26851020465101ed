"""Settings of the database; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from app.settings.address import check_database_url

__all__ = ["DatabaseSettings"]


class DatabaseSettings(BaseSettings):
    """The server, the pool of connections to it, and the wait for it."""

    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL 15 or newer, e.g. postgresql://user:secret@host/db, or with several servers: "
        "host:5432,host2:5432; default: the embedded server.",
    )
    database_wait_seconds: float = Field(
        float("inf"),
        ge=0,
        description="How long a service that starts waits for its database to answer, seconds; inf: without end, 0: it "
        "ends with exit code 3.",
    )
    database_connections_max: int = Field(12, ge=4, le=200, description="Size of the connection pool.")

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_database_url(value.get_secret_value())
        return value
