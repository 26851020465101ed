"""Options of Titanic. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TitanicOptions"]


@dataclass(frozen=True, slots=True)
class TitanicOptions:
    """How Titanic executes requests.

    ``concurrency``: calls of one service at a time; ``calls_max``: of all services together. ``execution_seconds``: a
    call without a reply after this time is given up and made again (TI-18). ``lease_seconds``: a Titanic that died
    leaves its requests to another one after this time; a live one extends them. ``look_seconds``: pause before a
    service without workers is looked at again (TI-10). ``retry_seconds`` to ``retry_seconds_max``: pause before a
    request is executed again; it doubles. ``retention_seconds``: requests that nobody closed are forgotten (TI-16).
    """

    concurrency: int = 8
    calls_max: int = 500
    execution_seconds: float = 900.0
    lease_seconds: float = 30.0
    look_seconds: float = 1.0
    retry_seconds: float = 0.1
    retry_seconds_max: float = 60.0
    retention_seconds: float = 7 * 86_400.0
    expire_seconds: float = 60.0
