"""webhooks/due_subscriptions.py: two lines, so that the living do not stand behind the dead."""

from webhooks.due_subscriptions import DueSubscriptions

ALIVE = {1, 2, 3, 4}


def due(*subscriptions: int, alive: set[int] = ALIVE) -> DueSubscriptions:
    """They were added one after the other."""
    line = DueSubscriptions(alive.__contains__)
    line.add(subscriptions)
    return line


def test_both_lines_come_in_turns_and_each_in_the_order_of_its_coming() -> None:
    assert due(30, 10, 20, 2, 1).first(9, unproven=True) == [2, 30, 1, 10, 20]


def test_a_thousand_dead_stand_before_nobody_alive() -> None:
    """WH-I01: whatever the length of a look."""
    line = due(*range(1000, 2000), 4)
    assert (line.first(1, unproven=True), line.first(1, unproven=False), len(line)) == ([4, 1000], [4], 1001)


def test_who_is_added_again_keeps_its_place() -> None:
    line = due(1, 2, 3)
    line.add([1])
    assert line.first(9, unproven=True) == [1, 2, 3]


def test_who_could_have_nothing_goes_to_the_end_and_who_is_asked_about_stands_nowhere() -> None:
    line = due(1, 2, 3, 30)
    line.move_to_end(1)
    line.remove(2)
    line.remove(30)
    line.remove(77)
    assert (line.first(9, unproven=True), len(line)) == ([3, 1], 2)


def test_who_has_succeeded_or_failed_meanwhile_changes_lines_and_stands_in_one_only() -> None:
    alive = {1, 2}
    line = due(1, 2, 30, 40, alive=alive)
    alive ^= {1, 40}
    line.move_to_end(1)
    line.add([40])
    assert (line.first(9, unproven=False), line.first(9, unproven=True), len(line)) == ([2, 40], [2, 30, 40, 1], 4)
