"""Which sessions are over, by what their servers say: no server takes part (HA-02, HA-03)."""

from dataclasses import dataclass

import asyncpg
import pytest

from db.bound import translated
from db.errors import CannotServe, DatabaseError, PrimaryChanged, ServerTrouble
from db.replication.primary import Primary, ServerIdentity

FIRST, PROMOTED, MOVED = ServerIdentity(1, 1), ServerIdentity(1, 2), ServerIdentity(2, 1)


@dataclass(eq=False)
class Holder:
    """A session outside of the pool."""

    generation: int
    ended: bool = False

    def end(self) -> None:
        self.ended = True


def lost() -> DatabaseError:
    with pytest.raises(DatabaseError) as caught, translated(sent=True):
        raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")
    return caught.value


def overdue() -> DatabaseError:
    with pytest.raises(DatabaseError) as caught, translated(sent=True):
        raise TimeoutError
    return caught.value


@pytest.mark.parametrize(
    ("error", "generation", "ended"),
    [
        (ServerTrouble("25006", "cannot execute INSERT in a read-only transaction"), 1, True),
        (lost(), 1, False),
        (overdue(), 0, False),
        (ServerTrouble("53100", "No space left on device"), 0, False),
    ],
    ids=["read-only", "lost", "late", "full"],
)
def test_an_answer_ends_the_sessions_that_it_concerns(error: DatabaseError, generation: int, ended: bool) -> None:
    """HA-02: where only a connection was lost, those outside of the pool have sockets of their own to learn it by."""
    primary, holder = Primary(), Holder(0)
    primary.attach(holder)
    primary.hear(error, 0)
    assert (primary.generation, holder.ended) == (generation, ended)


def test_a_late_answer_of_an_old_session_ends_no_younger_one() -> None:
    primary, young = Primary(), Holder(1)
    read_only = ServerTrouble("25006", "")
    primary.hear(read_only, 0)
    primary.attach(young)
    primary.hear(read_only, 0)
    assert (primary.generation, young.ended) == (1, False)


@pytest.mark.parametrize("found", [PROMOTED, MOVED], ids=["promotion", "another cluster"])
def test_when_another_server_has_taken_over_all_step_down_before_it_is_asked_anything(found: ServerIdentity) -> None:
    """HA-02, HA-03: the session that finds it is not lent; the next one is."""
    primary, holder, told = Primary(), Holder(0), list[int]()
    primary.attach(holder)
    primary.on_change(lambda: told.append(primary.generation))
    primary.admit(FIRST)
    with pytest.raises(PrimaryChanged):
        primary.admit(found)
    primary.admit(found)
    assert (told, holder.ended) == ([1], True)


@pytest.mark.parametrize("newest", [PROMOTED, MOVED], ids=["promotion", "another cluster"])
def test_a_server_of_the_past_is_not_used_again(newest: ServerIdentity) -> None:
    """HA-02: it may take writes, which nobody else would ever see."""
    primary = Primary()
    primary.admit(FIRST)
    with pytest.raises(PrimaryChanged):
        primary.admit(newest)
    with pytest.raises(CannotServe, match="restart hookwire"):
        primary.admit(FIRST)


def test_a_server_that_does_not_say_who_it_is_is_used() -> None:
    primary = Primary()
    primary.admit(FIRST)
    primary.admit(None)
    assert primary.generation == 0
