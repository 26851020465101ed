"""Where a pair stands, for every combination of request and subscription that there is."""

import pytest

from hub.intent import IntentState, IntentStep
from hub.subscription_status import SubscriptionStatus, subscription_status


@pytest.mark.parametrize(
    ("request_", "subscription", "expected"),
    [
        (None, None, SubscriptionStatus.NONE),
        ((IntentState.REQUESTED, IntentStep.VALIDATE, 0), None, SubscriptionStatus.REQUESTED),
        ((IntentState.VERIFYING, IntentStep.VALIDATE, 0), None, SubscriptionStatus.REQUESTED),
        ((IntentState.REQUESTED, IntentStep.VERIFY, 0), None, SubscriptionStatus.REQUESTED),
        ((IntentState.REQUESTED, IntentStep.VERIFY, 1), None, SubscriptionStatus.VALIDATED),
        ((IntentState.VERIFYING, IntentStep.VERIFY, 1), None, SubscriptionStatus.VERIFYING),
        ((IntentState.VERIFIED, IntentStep.VERIFY, 0), "active", SubscriptionStatus.ACTIVE),
        ((IntentState.VERIFYING, IntentStep.VERIFY, 0), "active", SubscriptionStatus.RENEWING),
        ((IntentState.DENIED, IntentStep.DENY, 1), "active", SubscriptionStatus.ACTIVE),
        ((IntentState.REQUESTED, IntentStep.DENY, 1), None, SubscriptionStatus.DENIED),
        ((IntentState.DENIED, IntentStep.DENY, 1), None, SubscriptionStatus.DENIED),
        ((IntentState.DENIED, IntentStep.DENY, 0), "denied", SubscriptionStatus.DENIED),
        ((IntentState.FAILED, IntentStep.VERIFY, 0), None, SubscriptionStatus.NONE),
        (None, "expired", SubscriptionStatus.EXPIRED),
        (None, "gone", SubscriptionStatus.GONE),
        ((IntentState.VERIFIED, IntentStep.VERIFY, 0), "deleted", SubscriptionStatus.WITHDRAWN),
        ((IntentState.REQUESTED, IntentStep.VERIFY, 0), "expired", SubscriptionStatus.REQUESTED),
    ],
)
def test_one_word_says_where_a_pair_stands(
    request_: tuple[IntentState, IntentStep, int] | None, subscription: str | None, expected: SubscriptionStatus
) -> None:
    """UD-12, WS-04, WS-38, WS-48, WS-56."""
    assert subscription_status(request_, subscription) is expected


def test_a_denial_of_old_does_not_speak_of_what_came_after_it() -> None:
    """UD-19: denied is not for ever."""
    assert (
        subscription_status((IntentState.DENIED, IntentStep.DENY, 0), "expired", is_later=False)
        is SubscriptionStatus.EXPIRED
    )
