"""hub/direct.py: when a commit offers its events to the worker of its process."""

from collections.abc import Sequence
from uuid import UUID

import pytest

from db.pool import Row
from hub.direct import DirectOptions, DirectPath

ORIGIN = UUID(int=7)


class Offered:
    """A worker that takes whatever it is given."""

    timeout_seconds = 15.0
    lease_margin_seconds = 5.0
    member_id = 3

    def __init__(self) -> None:
        self.taken: list[object] = []

    def take(self, claims: Sequence[Row]) -> None:
        self.taken += [row["event_id"] for row in claims]


OFFERED = Offered()


@pytest.mark.parametrize(
    ("drafts", "offer", "low_water", "terms"),
    [
        (3, OFFERED, (41, ORIGIN), (41, ORIGIN, 15.0, 5.0, 10, 20, 3)),
        (4, OFFERED, (41, ORIGIN), None),
        (1, None, (41, ORIGIN), None),
        (1, OFFERED, None, None),
    ],
    ids=["all is well", "many drafts", "no room", "another process leads"],
)
def test_a_commit_has_terms_where_nothing_in_the_process_is_in_its_way(
    drafts: int, offer: Offered | None, low_water: tuple[int, UUID] | None, terms: tuple[object, ...] | None
) -> None:
    path = DirectPath(lambda: offer, lambda: low_water, DirectOptions(3, 10, 20))
    commit = path.begin(drafts)
    assert (commit.terms if commit is not None else None) == terms


def test_the_worker_gets_the_deliveries_of_a_commit() -> None:
    offered = Offered()
    path = DirectPath(lambda: offered, lambda: (1, ORIGIN))
    commit = path.begin(2)
    assert commit is not None
    commit.take([row(1, 5), row(1, 6), row(2, None)])
    commit.take([row(3, None, is_owed=True)])
    assert offered.taken == [1, 1]


def test_the_relays_pass_by_new_events_that_are_owed_to_no_sink() -> None:
    """GR-04: a poll looked for them each second. An event that a repeat found may still wait for its relay."""
    passed_by: list[tuple[Sequence[int], UUID]] = []
    path = DirectPath(lambda: OFFERED, lambda: (1, ORIGIN), pass_by=lambda *passed: passed_by.append(passed))
    commit = path.begin(4)
    assert commit is not None
    commit.take(
        [
            row(4, 5),
            row(5, None),
            row(6, 5, is_owed=True),
            row(2, None, outcome="replayed"),
            row(None, None, outcome="busy"),
        ]
    )
    assert passed_by == [([4, 5], ORIGIN)]


def row(event: int | None, subscription: int | None, *, is_owed: bool = False, outcome: str = "stored") -> Row:
    """A row of ``direct.publish``."""
    return {"event_id": event, "subscription_id": subscription, "is_owed": is_owed, "outcome": outcome}
