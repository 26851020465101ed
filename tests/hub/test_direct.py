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

    def __init__(self) -> None:
        self.taken: list[object] = []

    def take(self, claims: Sequence[Row]) -> None:
        self.taken += [row["event_id"] for row in claims]


OFFERED = Offered()


@pytest.mark.parametrize(
    ("drafts", "offer", "low_water", "terms"),
    [
        (3, OFFERED, (41, ORIGIN), (41, ORIGIN, 15.0, 5.0, 10, 20)),
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
    rows = [
        {"event_id": 1, "subscription_id": 5, "is_owed": False},
        {"event_id": 1, "subscription_id": 6, "is_owed": False},
        {"event_id": 2, "subscription_id": None, "is_owed": False},
    ]
    commit = path.begin(2)
    assert commit is not None
    commit.take(rows)
    commit.take([{"event_id": 3, "subscription_id": None, "is_owed": True}])
    assert offered.taken == [1, 1]
