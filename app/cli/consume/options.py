"""Consume options: the options of ``hookwire consume``, and their errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from relay.tls import TlsFiles

__all__ = ["ConsumeOptions"]


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options; :mod:`app.cli.consume.consumer` explains each. None means no limit."""

    url: str = field(repr=False)
    queue: str
    exchange: str = "hookwire"
    bindings: Sequence[str] = ("#",)
    command: Sequence[str] = ()
    print_bodies: bool = False
    json_lines: bool = False
    concurrency: int = 1
    count: int | None = None
    attempts_max: int | None = None
    timeout_seconds: float | None = None
    retry_seconds_first: float = 1.0
    retry_seconds_max: float = 60.0
    connect_seconds_max: float = 10.0
    heartbeat_seconds: int = 10
    tls: TlsFiles = field(default_factory=lambda: TlsFiles("HOOKWIRE_AMQP_TLS"))

    @property
    def dead_queue(self) -> str:
        """Return the name of the queue for messages that failed ``attempts_max`` times."""
        return f"{self.queue}.dead"

    def mistakes(self) -> Iterator[str]:
        """Return the errors of the options, one sentence each."""
        if not self.url.startswith(("amqp://", "amqps://")):
            yield "--amqp is a URL that starts with amqp:// or amqps://"
        if not 1 <= len(self.queue.encode()) <= 250 or self.queue.startswith("amq."):
            yield "--queue is a name of 1 to 250 bytes that does not start with amq."
        if not 1 <= len(self.exchange.encode()) <= 127:
            yield "--exchange is a name of 1 to 127 bytes"
        if any(len(pattern.encode()) > 255 for pattern in self.bindings):
            yield "--bind is a pattern of at most 255 bytes"
        if bool(self.command) == self.print_bodies:
            yield "give either --exec SCRIPT or --print"
        elif self.command and shutil.which(self.command[0]) is None:
            yield f"--exec: {self.command[0]} is not a program that can be run"
        if not 1 <= self.concurrency <= 1000:
            yield "--concurrency is 1 to 1000"
        if self.count is not None and self.count < 1:
            yield "--count is at least 1"
        if self.attempts_max is not None and self.attempts_max < 1:
            yield "--attempts-max is at least 1"
        if self.timeout_seconds is not None and self.timeout_seconds <= 0:
            yield "--timeout is more than 0 seconds"
        if not 0 <= self.retry_seconds_first <= self.retry_seconds_max:
            yield f"--retry-seconds is 0 to {self.retry_seconds_max:g}"
