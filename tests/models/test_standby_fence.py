"""The standby fence holds in each state that its model can reach, and each broken twin of its rules is found."""

import pytest

from tests.models.explorer import Broken, NotAllowed, explore, replay
from tests.models.standby_fence import FenceRules, StandbyFence, Way

_STATES_MAX = 30_000
_SETTINGS: list[tuple[Way, bool]] = [("outbox", False), ("outbox", True), ("direct", False), ("direct", True)]
_BY_ONE = FenceRules(required="any", promoted="most advanced")
_RUN = (
    "1 is committed",
    "two flushes 1",
    "three flushes 1",
    "the commit of 1 returns",
    "1 is acknowledged",
    "the relay sees (1,)",
    "the relay reads position 1",
    "the relay sends (1,)",
    "three is promoted",
    "the hub follows",
)


@pytest.mark.parametrize("rules", [FenceRules(), _BY_ONE], ids=["all standbys", "any one, the most advanced promoted"])
@pytest.mark.parametrize(("way", "is_last_after"), _SETTINGS)
def test_no_ghost_no_loss_and_no_inversion_in_any_state(rules: FenceRules, way: Way, is_last_after: bool) -> None:
    assert explore(StandbyFence(rules, way, is_last_after=is_last_after), _STATES_MAX) > 1_000


@pytest.mark.parametrize(
    ("way", "is_last_after", "rules", "rule"),
    [
        ("outbox", False, FenceRules(position_after_snapshot=False), "a ghost"),
        ("direct", False, FenceRules(fences_direct=False), "a ghost"),
        ("direct", False, FenceRules(fences_claims=False), "a ghost"),
        ("outbox", False, FenceRules(acknowledged_by="any return"), "lost"),
        ("outbox", False, FenceRules(acknowledged_by="no warning"), "lost"),
        ("outbox", True, FenceRules(drops_old_sessions=False), "lost"),
        ("outbox", False, FenceRules(required="any"), "lost"),
    ],
    ids=[
        "the fence is compared before the snapshot",
        "the direct path passes the fence",
        "a claim passes the fence",
        "the warning is overlooked",
        "a 202 without the fence, and an emptied list",
        "old sessions are kept",
        "any one, and the wrong standby is promoted",
    ],
)
def test_a_broken_twin_is_found_with_its_trace(way: Way, is_last_after: bool, rules: FenceRules, rule: str) -> None:
    with pytest.raises(Broken) as found:
        explore(StandbyFence(rules, way, is_last_after=is_last_after), _STATES_MAX)
    print(found.value)
    assert found.value.rule.startswith(rule)


def test_a_right_run_is_accepted() -> None:
    assert replay(StandbyFence(FenceRules(), "outbox"), _RUN).sent == (("Kafka", 1),)


@pytest.mark.parametrize("missing", [0, 1, 2, 3, 5, 6])
def test_a_run_without_a_step_that_others_need_is_rejected(missing: int) -> None:
    with pytest.raises(NotAllowed):
        replay(StandbyFence(FenceRules(), "outbox"), (*_RUN[:missing], *_RUN[missing + 1 :]))
