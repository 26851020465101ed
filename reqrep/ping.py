"""Heartbeats of the connection itself (ZMTP 3.1). They show that the link and the peer's process live."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Ping"]


@dataclass(frozen=True, slots=True)
class Ping:
    """A PING after each ``interval_seconds``.

    The connection is closed when nothing arrives for ``timeout_seconds`` after a PING. libzmq answers PING in its own
    thread, so a program that computes answers too.
    """

    interval_seconds: float
    timeout_seconds: float
