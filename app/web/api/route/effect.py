"""Calls that are accepted and have no effect: the answer says so, and a counter counts them."""

from __future__ import annotations

from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter
from starlette.requests import Request
from starlette.responses import Response

__all__ = ["WithoutEffect", "tell_without_effect"]

Call = Literal["ping", "release", "close", "pause", "resume", "disable", "enable"]
_NOTICE_CHARACTERS: Final = 1_000


class WithoutEffect:
    """The counter of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.calls = Counter(
            "hookwire_calls_without_effect", "Calls that were accepted and changed nothing.", ["call"],
            registry=registry,
        )  # fmt: skip


def tell_without_effect(request: Request, response: Response, call: Call, notice: str) -> None:
    """Count the call, and put the notice into its answer."""
    without_effect: WithoutEffect = request.app.state.without_effect
    without_effect.calls.labels(call).inc()
    text = notice[:_NOTICE_CHARACTERS].encode("ascii", "backslashreplace").decode()
    response.headers["Hookwire-Notice"] = text.replace("\r", " ").replace("\n", " ")
