"""Options of Titanic. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TitanicOptions"]


@dataclass(frozen=True, slots=True)
class TitanicOptions:
    """How Titanic executes requests.

    * ``concurrency``: the most concurrent calls of one service.
    * ``calls_max``: the most concurrent calls of all services.
    * ``execution_seconds``: a call without a reply after this time is ended and repeated (TI-18).
    * ``lease_seconds``: after this time another Titanic may take the requests of a crashed one. A live Titanic extends
      its leases.
    * ``look_seconds``: the pause before Titanic asks again whether a service has a worker (TI-10).
    * ``retry_seconds``, ``retry_seconds_max``: the first and the longest pause before a repetition; it doubles.
    * ``retention_seconds``: requests older than this are deleted (TI-16).
    * ``expire_seconds``: the interval of that deletion.
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
