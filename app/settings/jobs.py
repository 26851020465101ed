"""Settings of queues, tasks and services; `app.settings.settings.Settings` has them with all others."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from app.settings.part import SettingsPart

__all__ = ["JobsSettings"]


class JobsSettings(SettingsPart):
    """Settings of the rooms `jobs` and `reqrep`."""

    temporary_queues_max: int = Field(
        1_000, ge=0, le=100_000, description="Temporary queues at the same time, at most."
    )
    dead_task_command: str = Field(
        "", description="Program that runs for each dead task, and gets it as JSON on its standard input."
    )
    dead_task_mail_to: str = Field("", max_length=320, description="E-mail address that gets reports of dead tasks.")
    dead_task_mail_from: str = Field("hookwire@localhost", max_length=320, description="Sender of these e-mails.")
    smtp_url: SecretStr | None = Field(
        None, description="smtp://user:secret@host:port, or smtps:// for TLS from the first byte; sends the e-mails."
    )

    @model_validator(mode="after")
    def _check_mail(self) -> Self:
        if bool(self.dead_task_mail_to) != (self.smtp_url is not None):
            raise ValueError("dead_task_mail_to and smtp_url are set together, or neither is")
        if self.smtp_url is not None:
            parts = urlsplit(self.smtp_url.get_secret_value())
            if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
                raise ValueError("smtp_url must be smtp://host:port or smtps://host:port")
        return self
