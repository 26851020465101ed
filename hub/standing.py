"""Standing: where a pair of topic and callback stands, in one word, from its latest request and its subscription. Pure.

    none --> requested --> validated --> verifying --> active <--> renewing
                 '-------------'-- denied     |           '--> expired, gone, denied, withdrawn
                                              '--> none, if it never was active

A request and a subscription have states of their own (``hub`` says which); this is what people ask about both.
"""

from __future__ import annotations

from enum import StrEnum

from hub.intent import Stage, State

__all__ = ["Standing", "standing"]


class Standing(StrEnum):
    """See above. RENEWING is active, and a request to subscribe is open."""

    NONE = "none"
    REQUESTED = "requested"
    VALIDATED = "validated"
    VERIFYING = "verifying"
    ACTIVE = "active"
    RENEWING = "renewing"
    DENIED = "denied"
    EXPIRED = "expired"
    GONE = "gone"
    WITHDRAWN = "withdrawn"


_ENDED = {"denied": Standing.DENIED, "expired": Standing.EXPIRED, "gone": Standing.GONE, "deleted": Standing.WITHDRAWN}
_OPEN = (State.REQUESTED, State.VERIFYING)


def standing(request: tuple[State, Stage, int] | None, subscription: str | None, *, is_later: bool = True) -> Standing:
    """Where the pair stands.

    Args:
        request: state and stage of its latest request to subscribe, and the attempts before that stage.
        subscription: the state of its latest subscription.
        is_later: whether the request was made after the subscription ended.
    """
    is_open = request is not None and request[0] in _OPEN
    if subscription in ("active", "disabled"):
        return Standing.RENEWING if is_open else Standing.ACTIVE
    if is_open and request is not None:
        return _asked(*request)
    if request is not None and request[0] is State.DENIED and is_later:
        return Standing.DENIED
    return _ENDED.get(subscription or "", Standing.NONE)


def _asked(state: State, stage: Stage, attempts_before: int) -> Standing:
    if stage is Stage.DENY:
        return Standing.DENIED
    if stage is Stage.VALIDATE:
        return Standing.REQUESTED
    if state is State.VERIFYING:
        return Standing.VERIFYING
    return Standing.VALIDATED if attempts_before else Standing.REQUESTED
