"""benchmarks/clock.py: a rate is that of what was acknowledged while the time ran."""

from __future__ import annotations

import time

import pytest

from benchmarks.clock import Clock


def test_what_began_the_time_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter((10.0, 12.0))
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    clock = Clock(300)
    for records in (100, 200):
        clock.acknowledged(records)
    assert (clock.done.is_set(), clock.rate()) == (True, 100.0)


@pytest.mark.parametrize("acknowledged", [300, 301])
def test_events_that_were_acknowledged_at_once_have_no_rate(acknowledged: int) -> None:
    """It was printed as 0 events/s."""
    clock = Clock(300)
    clock.acknowledged(acknowledged)
    with pytest.raises(SystemExit, match=r"300 events were acknowledged at once.*--events"):
        clock.rate()
