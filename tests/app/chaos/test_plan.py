"""The plan of faults is a pure function of its seed (HN-02, OR-07)."""

from app.chaos.plan import INDISPENSABLE, FaultKind, make_plan

POINTS = ["relay.after_send", "publish.after_commit"]


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert make_plan(1, 60, POINTS) == make_plan(1, 60, POINTS) != make_plan(2, 60, POINTS)


def test_every_kind_of_fault_has_its_turn_before_any_comes_again() -> None:
    for seed in range(50):
        plan = make_plan(seed, 28, POINTS)
        assert {fault.kind for fault in plan[: len(FaultKind)]} == set(FaultKind)


def test_what_finds_bugs_that_nothing_else_finds_comes_first_however_short_the_run() -> None:
    for seed in range(50):
        kinds = [fault.kind for fault in make_plan(seed, 0, POINTS)]
        assert (kinds[0], set(kinds)) == (FaultKind.TAKE_OVER, set(INDISPENSABLE))


def test_faults_follow_each_other_and_end_in_time() -> None:
    for seed in range(50):
        times = [fault.at_seconds for fault in make_plan(seed, 100, POINTS)]
        assert times == sorted(times)
        assert times[-1] < 100


def test_a_fail_point_is_named_with_its_passing_and_a_database_with_its_signal() -> None:
    plan = make_plan(3, 1_000, POINTS)
    points = {fault.detail.split(":")[0] for fault in plan if fault.kind is FaultKind.FAILPOINT}
    signals = {fault.detail for fault in plan if fault.kind is FaultKind.DATABASE}
    assert (points, signals) == (set(POINTS), {"SIGKILL", "SIGQUIT"})
