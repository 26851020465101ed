"""A claim is taken over once, and nothing of its former owner comes after that, in each state of the model."""

import pytest

from tests.models.explorer import Broken, explore, replay
from tests.models.membership import MemberModel, MemberRules

_STATES_MAX = 400_000
_RECONNECT = (
    "A sends",
    "the session of A is cut",
    "B looks at the locks",
    "B takes over and sends",
)


@pytest.mark.parametrize("is_alone", [False, True], ids=["three", "alone"])
def test_nothing_of_a_former_owner_comes_after_a_take_over_in_any_state(is_alone: bool) -> None:
    """TO-01, TO-04, TO-05"""
    assert explore(MemberModel(MemberRules(), is_alone=is_alone), _STATES_MAX) > 100


@pytest.mark.parametrize(
    ("rules", "is_alone", "rule"),
    [
        (MemberRules(waits="nothing"), False, "two at once"),
        (MemberRules(trust_ends=False), False, "two at once"),
        (MemberRules(trusts_from="answer"), False, "two at once"),
        (MemberRules(comes_back_as="the same"), False, "two at once"),
        (MemberRules(asks_for_row=False), False, "sent after"),
        (MemberRules(deletes_row=False), False, "two have taken over"),
        (MemberRules(fences_settlements=False), False, "a former owner"),
        (MemberRules(death_by="pid"), False, "two at once"),
        (MemberRules(aborts_alone=True), True, "a repeat"),
    ],
    ids=[
        "a lock that is free after a reconnect is taken for a death",
        "a membership is trusted past its second",
        "trust begins with the answer",
        "a member locks its former number again",
        "a member that comes back keeps claims that were taken over",
        "each process that sees the dead member takes over",
        "the fence is not checked after a take-over",
        "a pid is taken for a proof",
        "a process without others aborts",
    ],
)
def test_a_broken_twin_of_the_members_is_found_with_its_trace(rules: MemberRules, is_alone: bool, rule: str) -> None:
    """TO-01 to TO-05"""
    with pytest.raises(Broken) as found:
        explore(MemberModel(rules, is_alone=is_alone), _STATES_MAX)
    print(found.value)
    assert found.value.rule.startswith(rule)


def test_the_run_that_a_reconnect_allows_sends_two_at_once() -> None:
    """TO-01: the session of A was cut, and A does not know it yet."""
    with pytest.raises(Broken, match="two at once"):
        replay(MemberModel(MemberRules(waits="nothing")), _RECONNECT)
