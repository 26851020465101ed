"""Alarm: report dead tasks by a program and by e-mail. The database writes the operator events.

A dead task stays unreported until both are done, so none is lost while the mail server is down. Several processes may
report the same task at once: then it is reported twice.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import smtplib
import ssl
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote, urlsplit

import structlog

from app.bridges.script import Script
from app.settings.settings import Settings
from db.errors import DatabaseError
from db.pool import Database, Row
from runtime.counted import counted
from runtime.pause import pause

__all__ = ["Alarm", "Mail", "alarm_of"]

_log = structlog.get_logger(__name__)
_BATCH = 50
_COMMAND_SECONDS = 60.0
_MAIL_SECONDS = 20.0
_LISTED_MAX = 20
_PAUSE_SECONDS = (1.0, 60.0)


class Mail:
    """Sends through the server of a URL ``smtp://user:secret@host:port`` or ``smtps://``."""

    def __init__(self, url: str, sender: str, recipient: str) -> None:
        self._parts = urlsplit(url)
        self._sender = sender
        self._recipient = recipient

    def send(self, subject: str, text: str) -> None:
        """Send one e-mail; blocks. Raises ``smtplib.SMTPException`` and OSError."""
        message = EmailMessage()
        message["Subject"], message["From"], message["To"] = subject, self._sender, self._recipient
        message.set_content(text)
        parts, context = self._parts, ssl.create_default_context()
        host, secure = parts.hostname or "", parts.scheme == "smtps"
        server: smtplib.SMTP = (
            smtplib.SMTP_SSL(host, parts.port or 465, timeout=_MAIL_SECONDS, context=context)
            if secure
            else smtplib.SMTP(host, parts.port or 25, timeout=_MAIL_SECONDS)
        )
        with server:
            server.ehlo()
            if not secure and server.has_extn("starttls"):
                server.starttls(context=context)
            if parts.username:
                server.login(unquote(parts.username), unquote(parts.password or ""))
            server.send_message(message)


class Alarm:
    """A service. ``command`` gets each dead task as JSON on its standard input; ``mail`` gets one for a batch."""

    name = "alarm"

    def __init__(self, database: Database, command: Sequence[str], mail: Mail | None) -> None:
        self._database = database
        self._script = Script(command, timeout_seconds=_COMMAND_SECONDS) if command else None
        self._mail = mail
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()

    def notify(self) -> None:
        """Begin a round now, because a task has died."""
        self._wake.set()

    def stop(self) -> None:
        """End after the current batch."""
        self._stopping.set()
        self._wake.set()

    async def run(self) -> None:
        """Report until stopped."""
        seconds, longest = _PAUSE_SECONDS
        while not self._stopping.is_set():
            await self._wake.wait()
            self._wake.clear()
            try:
                while not self._stopping.is_set() and await self.tell():
                    seconds = _PAUSE_SECONDS[0]
            except (DatabaseError, smtplib.SMTPException, OSError, _CommandFailed) as error:
                _log.warning("alarm_failed", error=str(error) or type(error).__name__, retry_seconds=seconds)
                await pause(self._stopping, seconds)
                seconds = min(seconds * 2, longest)
                self._wake.set()

    async def tell(self) -> int:
        """Report one batch of dead tasks; return how many."""
        rows = await self._database.fetch("task.untold", _BATCH)
        dead = [_shown(row) for row in rows]
        if dead:
            if self._script is not None:
                for one in dead:
                    await self._run(one)
            if self._mail is not None:
                await asyncio.to_thread(self._mail.send, _subject(dead), _text(dead))
            await self._database.execute("task.told", [row["number"] for row in rows])
        return len(dead)

    async def _run(self, dead: Mapping[str, Any]) -> None:
        assert self._script is not None, "the caller has checked that there is a command"
        variables = {"HOOKWIRE_TASK_ID": dead["id"], "HOOKWIRE_TASK_KIND": dead["kind"]}
        outcome = await self._script.run(json.dumps(dead).encode(), variables)
        if not outcome.done:
            raise _CommandFailed(f"HOOKWIRE_DEAD_TASK_COMMAND: {outcome.reason}")


class _CommandFailed(Exception):
    """The program did not exit with 0."""


def alarm_of(settings: Settings, database: Database) -> Alarm | None:
    """Return the alarm that the settings ask for, if any."""
    mail = None
    if settings.smtp_url is not None:
        mail = Mail(settings.smtp_url.get_secret_value(), settings.dead_task_mail_from, settings.dead_task_mail_to)
    command = shlex.split(settings.dead_task_command)
    return Alarm(database, command, mail) if command or mail is not None else None


def _shown(row: Row) -> dict[str, Any]:
    times = {name: row[name].isoformat() for name in ("created_at", "died_at")}
    return {**{name: row[name] for name in ("id", "kind", "description", "reason", "attempts", "worker")}, **times}


def _subject(dead: Sequence[Mapping[str, Any]]) -> str:
    kinds = ", ".join(sorted({one["kind"] for one in dead}))
    return f"hookwire: {counted(len(dead), 'dead task')} ({kinds})"[:200]


def _text(dead: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"{one['kind']} {one['id']}: {one['reason']} ({counted(one['attempts'], 'attempt')})"
        for one in dead[:_LISTED_MAX]
    ]
    more = [f"and {len(dead) - _LISTED_MAX} more"] if len(dead) > _LISTED_MAX else []
    return "\n".join([*lines, *more, "", "hookwire tasks dead lists them; hookwire tasks redrive returns them."])
