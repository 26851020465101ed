"""Structured logs: one wide line per event, secrets masked, on stderr (EC-06, SE-07)."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal

import structlog

__all__ = ["configure_logging"]

_SECRET_NAMES = re.compile(
    r"authorization|cookie|secret|token|signature|password|dsn|database_url|outbox_url|amqp_(source_)?url",
    re.IGNORECASE,
)
_SECRET_TEXTS = re.compile(
    r"(?<=whsec_)[A-Za-z0-9+/=]+|(?<=whsk_)[A-Za-z0-9+/=]+|(?<=hwk_[0-9a-f]{12}_)[A-Za-z0-9]+"
    r"|(?<=://)[^/?#\s]+(?=@)|(?<=\?)[^\s\"'<>#?]*(?==)[^\s\"'<>#]+"
)
"""Signing keys, API keys but their names, everything before the last @ of a URL's authority, a URL's query (SE-09)."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_VALUE_CHARACTERS_MAX = 2_000
_TRACEBACK_CHARACTERS_MAX = 20_000
_NOT_RAISED = ("Got error produce response", "Unable connect to node with id")
_REASON_SECONDS = 60.0  # each reason is logged once in this time
_REASONS_MAX = 32


def _leave_out_nulls(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drop fields without information (FT-17)."""
    return {name: value for name, value in line.items() if value is not None}


def _console_renderer() -> structlog.dev.ConsoleRenderer:
    """Coloured on a terminal, unless NO_COLOR is set to anything (no-color.org)."""
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and not os.environ.get("NO_COLOR"))


def _mask(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Mask secrets by name and by pattern, cut long values, and keep each entry on one line (OB-12)."""
    for name, value in line.items():
        if name == "exception":  # all its lines are our own, and the last ones have the error
            line[name] = _SECRET_TEXTS.sub("***", str(value))[-_TRACEBACK_CHARACTERS_MAX:]
        else:
            line[name] = _masked(name, value)
    return line


def _masked(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name):
        return "***"
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, Mapping):
        return {key: _masked(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_masked(name, one) for one in value]
    text = value if isinstance(value, str) else repr(value)
    return _CONTROLS.sub(_escaped, _SECRET_TEXTS.sub("***", text)[:_VALUE_CHARACTERS_MAX])


def _escaped(control: re.Match[str]) -> str:
    return control[0].encode("unicode_escape").decode("ascii")


def configure_logging(log_format: Literal["auto", "console", "json"], level: str) -> None:
    """Send structlog and the standard library's loggers through the same processors."""
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Any = _console_renderer() if console else structlog.processors.JSONRenderer()
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared[:1], shared[2], structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _leave_out_nulls,
                _mask,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # These libraries also raise the errors that they log. We log the exceptions once, not at every try.
    shows_theirs = level == "debug"
    for silent in ("aiormq", "asyncpg"):
        logging.getLogger(silent).setLevel(logging.WARNING if shows_theirs else logging.CRITICAL)
    if not shows_theirs:
        handler.addFilter(_KafkasLines())
    for noisy in ("aiokafka", "aio_pika", "httpx", "uvicorn", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


class _KafkasLines:
    """A filter of aiokafka's log lines. Most of them also come as exceptions; only the others are shown. These are
    tracebacks of unexpected errors, the reason why a broker refuses a batch, and a broker's address that cannot be
    reached. Such an address may be wrong in that broker's own settings. aiokafka tries again until our time-out, and
    its exception says only that no answer came.
    """

    def __init__(self) -> None:
        self._shown: dict[str, float] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        if record.exc_info is not None or record.name.partition(".")[0] != "aiokafka":
            return True
        reason = record.args[-1] if isinstance(record.args, tuple) and record.args else record.args
        return str(record.msg).startswith(_NOT_RAISED) and self._is_news(str(reason))

    def _is_news(self, reason: str) -> bool:
        now = time.monotonic()
        if now - self._shown.get(reason, -_REASON_SECONDS) < _REASON_SECONDS:
            return False
        if len(self._shown) >= _REASONS_MAX:
            self._shown.clear()
        self._shown[reason] = now
        return True
