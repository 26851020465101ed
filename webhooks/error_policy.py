"""Error policy: the effect of failed deliveries on RabbitHub's messages and subscriptions (RH-41..RH-43)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ErrorPolicy"]


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """A policy. ``requeues``: a refused message is tried again; otherwise it becomes a dead letter at once. A message
    that got no answer is always tried again. More than ``errors_max`` failures within ``errors_seconds`` make the
    subscription inactive; None: never.
    """

    requeues: bool = True
    errors_max: int | None = None
    errors_seconds: float = 1.0
