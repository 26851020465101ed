"""Settings of the database; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from pathlib import Path

from pydantic import AfterValidator, Field, SecretStr, field_validator, model_validator
from typing_extensions import Annotated, Self  # noqa: UP035 - one home for both on 3.11

from app.settings.address import check_database_url
from app.settings.part import SettingsPart
from db.replication.standby_fence import Required

__all__ = ["DatabaseSettings"]


def _no_file(path: Path) -> Path:
    if path.is_file():
        raise ValueError(f"{path} is a file; name a folder, which is made if it does not exist")
    return path


DataFolder = Annotated[Path, AfterValidator(_no_file)]


def _data_dir() -> Path:
    """Return the default data folder. `make run` keeps its data in the checkout; a command there uses the same
    installation.
    """
    local = Path(".hookwire")
    if local.is_dir():
        return local.absolute()
    import platformdirs

    return Path(platformdirs.user_state_dir("hookwire"))


class DatabaseSettings(SettingsPart):
    """The server, the pool of connections to it, the wait for it, and the folder of the embedded one."""

    data_dir: DataFolder = Field(
        default_factory=_data_dir,
        description="Embedded database, its logs, the key file, records of claims; default .hookwire/ where that "
        "is, else the user's state directory.",
    )
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

    standby_fence: str = Field(
        "",
        description="Events leave only when these standbys have them: names:a,b,c with the cluster_name of each server "
        "of the cluster, or any:1. Empty: no fence.",
    )

    @field_validator("standby_fence")
    @classmethod
    def _check_standby_fence(cls, value: str) -> str:
        if value:
            Required.parse(value)
        return value

    @model_validator(mode="after")
    def _check_that_a_fence_has_a_server(self) -> Self:
        if self.standby_fence and self.database_url is None:
            raise ValueError("HOOKWIRE_STANDBY_FENCE: the embedded database has no standby; set HOOKWIRE_DATABASE_URL")
        return self

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_database_url(value.get_secret_value())
        return value
