"""SubscriptionStatus: the status of a pair of topic and callback, from its latest request and its subscription. Pure.

    none --> requested --> validated --> verifying --> active <--> renewing
                 '-------------'-- denied     |           '--> expired, gone, denied, withdrawn
                                              '--> none, if it never was active

A request and a subscription have states of their own (``hub`` says which); this joins both for people.
"""

from __future__ import annotations

from enum import StrEnum

from hub.intent import IntentState, IntentStep

__all__ = ["SubscriptionStatus", "subscription_status"]


class SubscriptionStatus(StrEnum):
    """See above. RENEWING means active with an open request to subscribe."""

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


_ENDED = {
    "denied": SubscriptionStatus.DENIED,
    "expired": SubscriptionStatus.EXPIRED,
    "gone": SubscriptionStatus.GONE,
    "deleted": SubscriptionStatus.WITHDRAWN,
}
_OPEN = (IntentState.REQUESTED, IntentState.VERIFYING)


def subscription_status(
    request: tuple[IntentState, IntentStep, int] | None, subscription: str | None, *, is_later: bool = True
) -> SubscriptionStatus:
    """Return the status of the pair.

    Args:
        request: state and stage of its latest request to subscribe, and the attempts before that stage.
        subscription: the state of its latest subscription.
        is_later: whether the request was made after the subscription ended.
    """
    is_open = request is not None and request[0] in _OPEN
    if subscription in ("active", "disabled"):
        return SubscriptionStatus.RENEWING if is_open else SubscriptionStatus.ACTIVE
    if is_open and request is not None:
        return _asked(*request)
    if request is not None and request[0] is IntentState.DENIED and is_later:
        return SubscriptionStatus.DENIED
    return _ENDED.get(subscription or "", SubscriptionStatus.NONE)


def _asked(state: IntentState, stage: IntentStep, attempts_before: int) -> SubscriptionStatus:
    if stage is IntentStep.DENY:
        return SubscriptionStatus.DENIED
    if stage is IntentStep.VALIDATE:
        return SubscriptionStatus.REQUESTED
    if state is IntentState.VERIFYING:
        return SubscriptionStatus.VERIFYING
    return SubscriptionStatus.VALIDATED if attempts_before else SubscriptionStatus.REQUESTED
