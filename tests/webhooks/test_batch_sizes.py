"""webhooks/batch.py: what a worker remembers of its subscribers is bounded (WH-C05)."""

from typing import Any, cast

from webhooks import batch
from webhooks.batch import BatchSizes
from webhooks.subscriber import Subscriber


class Asked:
    """What a batch size depends on."""

    def __init__(self, number: int, batch_max: int, version: int = 1) -> None:
        self.id, self.batch_max, self.version = number, batch_max, version


def asked(number: int, batch_max: int) -> Subscriber:
    return cast("Subscriber", Asked(number, batch_max))


def test_a_subscription_that_wants_single_events_again_is_claimed_for_as_such() -> None:
    """A subscription that was changed kept its old share of each claim."""
    sizes = BatchSizes()
    sizes.note([asked(1, 100), asked(2, 50), asked(3, 1)])
    sizes.note([asked(1, 1)])
    assert [sizes.asked_for(number) for number in (1, 2, 3)] == [1, 50, 1]


def test_no_more_than_so_many_are_remembered(monkeypatch: Any) -> None:
    monkeypatch.setattr(batch, "_REMEMBERED_MAX", 10)
    sizes = BatchSizes()
    sizes.note(asked(number, 2) for number in range(95))
    sizes.note([asked(94, 3)])  # one that is known needs no room
    assert [number for number in range(95) if sizes.asked_for(number) > 1] == [90, 91, 92, 93, 94]
    assert sizes.asked_for(94) == 3
