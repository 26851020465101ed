"""Where a pair stands, for every combination of request and subscription that there is."""

import pytest

from hub.intent import Stage, State
from hub.standing import Standing, standing


@pytest.mark.parametrize(
    ("request_", "subscription", "expected"),
    [
        (None, None, Standing.NONE),
        ((State.REQUESTED, Stage.VALIDATE, 0), None, Standing.REQUESTED),
        ((State.VERIFYING, Stage.VALIDATE, 0), None, Standing.REQUESTED),
        ((State.REQUESTED, Stage.VERIFY, 0), None, Standing.REQUESTED),
        ((State.REQUESTED, Stage.VERIFY, 1), None, Standing.VALIDATED),
        ((State.VERIFYING, Stage.VERIFY, 1), None, Standing.VERIFYING),
        ((State.VERIFIED, Stage.VERIFY, 0), "active", Standing.ACTIVE),
        ((State.VERIFYING, Stage.VERIFY, 0), "active", Standing.RENEWING),
        ((State.DENIED, Stage.DENY, 1), "active", Standing.ACTIVE),
        ((State.REQUESTED, Stage.DENY, 1), None, Standing.DENIED),
        ((State.DENIED, Stage.DENY, 1), None, Standing.DENIED),
        ((State.DENIED, Stage.DENY, 0), "denied", Standing.DENIED),
        ((State.FAILED, Stage.VERIFY, 0), None, Standing.NONE),
        (None, "expired", Standing.EXPIRED),
        (None, "gone", Standing.GONE),
        ((State.VERIFIED, Stage.VERIFY, 0), "deleted", Standing.WITHDRAWN),
        ((State.REQUESTED, Stage.VERIFY, 0), "expired", Standing.REQUESTED),
    ],
)
def test_one_word_says_where_a_pair_stands(
    request_: tuple[State, Stage, int] | None, subscription: str | None, expected: Standing
) -> None:
    """UD-12, WS-04, WS-38, WS-48, WS-56."""
    assert standing(request_, subscription) is expected


def test_a_denial_of_old_does_not_speak_of_what_came_after_it() -> None:
    """UD-19: denied is not for ever."""
    assert standing((State.DENIED, Stage.DENY, 0), "expired", is_later=False) is Standing.EXPIRED
