"""runtime/sample.py: which events are logged in detail."""

import pytest

from runtime.sample import EventSample

IDS = range(1_000_000, 1_010_000)


@pytest.mark.parametrize(("share", "taken"), [(0.0, 0), (1.0, 10_000)])
def test_none_and_all_mean_what_they_say(share: float, taken: int) -> None:
    sample = EventSample(share)
    assert sum(sample.takes(number) for number in IDS) == taken


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_share_takes_that_part_of_consecutive_events(share: float) -> None:
    """HO-10: within a tenth of what was asked for."""
    sample = EventSample(share)
    assert sum(sample.takes(number) for number in IDS) == pytest.approx(share * len(IDS), rel=0.1)


def test_two_processes_take_the_same_events_and_a_larger_share_takes_them_too() -> None:
    """HO-10: the request line of one process and the attempt lines of another belong together."""
    first, second, larger = EventSample(0.1), EventSample(0.1), EventSample(0.2)
    taken = [number for number in IDS if first.takes(number)]
    assert [number for number in IDS if second.takes(number)] == taken
    assert all(larger.takes(number) for number in taken)
