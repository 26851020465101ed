"""Signals connect parts of the process that do not know each other."""

from runtime.observable import Observable


def test_every_listener_is_called_in_order_with_what_was_told() -> None:
    told: list[tuple[str, int]] = []
    signal = Observable[[int]]()
    signal.connect(lambda number: told.append(("first", number)))
    signal.connect(lambda number: told.append(("second", number)))
    signal.notify(7)
    assert told == [("first", 7), ("second", 7)]


def test_a_signal_that_nobody_listens_to_does_nothing() -> None:
    Observable[[int]]().notify(7)
