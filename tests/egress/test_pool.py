"""egress/pool.py: which connection is used next, and for how long (EG-05, OB-08, WH-I04)."""

from typing import Any

from egress.pool import Pool

ORIGIN = (False, "a.example", 80)
OTHER = (True, "b.example", 443)


class Kept:
    """What a pool needs of a connection."""

    def __init__(self, name: str, connected_at: float = 0.0, origin: tuple[bool, str, int] = ORIGIN) -> None:
        self.name = name
        self.origin = origin
        self.connected_at = connected_at
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.closing = True


def _pool(**limits: Any) -> Any:
    return Pool(**{"age_seconds_max": 60.0, "idle_per_origin_max": 8, "idle_max": 100, **limits})


def _take(pool: Any, now: float = 1.0, origin: tuple[bool, str, int] = ORIGIN) -> str | None:
    connection = pool.take(origin, now)
    return connection and connection.name


async def test_the_last_one_given_is_the_first_one_taken() -> None:
    pool = _pool()
    for name in "abc":
        pool.give(Kept(name))
    assert [_take(pool) for _ in range(4)] == ["c", "b", "a", None]


async def test_a_kept_connection_serves_its_own_origin_only() -> None:
    pool = _pool()
    pool.give(Kept("a"))
    assert (_take(pool, origin=OTHER), _take(pool, origin=(True, "a.example", 80)), _take(pool)) == (None, None, "a")


async def test_a_connection_is_not_used_beyond_the_age_of_its_verdict() -> None:
    """EG-05."""
    pool, old, young = _pool(), Kept("old", connected_at=0.0), Kept("young", connected_at=30.0)
    pool.give(young)
    pool.give(old)
    assert (_take(pool, now=60.0), old.closing, young.closing) == ("young", True, False)


async def test_a_closing_connection_is_passed_over() -> None:
    pool, closing = _pool(), Kept("closing")
    pool.give(Kept("a"))
    pool.give(closing)
    closing.closing = True
    assert (_take(pool), pool.idle_count) == ("a", 0)


async def test_a_lost_connection_makes_room() -> None:
    pool, lost = _pool(idle_per_origin_max=1), Kept("lost")
    pool.opened(lost)
    pool.give(lost)
    pool.lost(lost)
    pool.give(Kept("a"))
    assert (_take(pool), pool.open_count, pool.idle_count) == ("a", 0, 0)


async def test_one_origin_cannot_take_all() -> None:
    """OB-08."""
    pool = _pool(idle_per_origin_max=2)
    surplus = [Kept(str(n)) for n in range(5)]
    for connection in surplus:
        pool.give(connection)
    pool.give(Kept("other", origin=OTHER))
    assert ([c.closing for c in surplus], _take(pool, origin=OTHER)) == ([False, False, True, True, True], "other")


async def test_the_pool_bounds_its_connections_in_total() -> None:
    pool = _pool(idle_max=3)
    for n in range(10):
        pool.give(Kept("x", origin=(False, f"{n}.example", 80)))
    assert pool.idle_count == 3


async def test_closing_closes_idle_and_busy_connections_and_keeps_none() -> None:
    pool, idle, busy = _pool(), Kept("idle"), Kept("busy")
    for connection in (idle, busy):
        pool.opened(connection)
    pool.give(idle)
    await pool.aclose(grace_seconds=0.01)
    late = Kept("late")
    pool.give(late)
    assert ([idle.closing, busy.closing, late.closing], _take(pool)) == ([True] * 3, None)
