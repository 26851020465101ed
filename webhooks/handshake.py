"""The CloudEvents handshake: may we deliver there, and how fast? (http-webhook.md; WH-C12, WH-C13)

::

    OPTIONS callback   WebHook-Request-Origin: hub.example      -->
                       WebHook-Request-Rate: 3000
                       WebHook-Request-Callback: https://hub.example/handshakes/...
                  <--  WebHook-Allowed-Origin: hub.example (or *)     consent; the status does not count
                       WebHook-Allowed-Rate: 120 (or *)               requests per minute
    or later      <--  GET or POST to that URL, optionally with WebHook-Allowed-Rate
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from egress.client import Outbound, Request, Response
from egress.url import Target

__all__ = ["Consent", "NoConsent", "allowed_rate", "ask_consent", "consent_in"]

_RATE_MAX = 6_000_000  # per minute: the largest limit of a subscription


class NoConsent(Exception):
    """The callback does not agree; the text has its answer."""


@dataclass(frozen=True, slots=True)
class Consent:
    """The consent of a callback. ``rate_per_minute`` None: without a limit."""

    rate_per_minute: int | None


async def ask_consent(
    outbound: Outbound, target: Target, origin: str, rate_per_minute: int | None, invitation: str | None,
    deadline_seconds: float,
) -> Consent:  # fmt: skip
    """Ask the exact callback; ``invitation`` is the URL by which it may agree later, None: it may not.

    Raises :class:`NoConsent`, ``egress.failure.OutboundError``.
    """
    headers = [("webhook-request-origin", origin)]
    if invitation is not None:
        headers.append(("webhook-request-callback", invitation))
    if rate_per_minute is not None:
        headers.append(("webhook-request-rate", str(rate_per_minute)))
    return consent_in(await outbound.send(Request("OPTIONS", target, headers, b"", deadline_seconds)), origin)


def consent_in(response: Response, origin: str) -> Consent:
    """Return the consent in an answer; raises :class:`NoConsent`. Two different answers count as none."""
    origins = {value.strip().lower() for value in response.values("webhook-allowed-origin")}
    if len(origins) != 1 or not origins <= {"*", origin.lower()}:
        named = "nobody" if not origins else "others"
        raise NoConsent(f"the callback answered {response.status} and allows {named} in WebHook-Allowed-Origin")
    return Consent(allowed_rate(response.values("webhook-allowed-rate")))


def allowed_rate(values: Iterable[str]) -> int | None:
    """Return the requests per minute of a ``WebHook-Allowed-Rate``, None for no limit; raises :class:`NoConsent`."""
    rates = {value.strip() for value in values} - {"*"}
    if not rates:
        return None
    text = rates.pop()
    if rates or not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise NoConsent("WebHook-Allowed-Rate is neither a number of requests per minute nor *")
    return min(int(text), _RATE_MAX)
