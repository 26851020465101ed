"""Which offsets a batch reads, and what keeps a partition from being read on (PL-K11)."""

from __future__ import annotations

import pytest

from pipeline.archive import tasks_of
from pipeline.kafka_range import Bounds, Range, RangePlan, RangeProblem, from_json, planned, task_size, to_json


def test_new_partitions_begin_at_their_first_record_and_known_ones_where_they_were() -> None:
    plan = planned({"a": {0: 10}}, {("a", 0): Bounds(0, 15), ("a", 1): Bounds(3, 8), ("a", 2): Bounds(5, 5)}, 100)
    assert plan == RangePlan((Range("a", 0, 10, 15), Range("a", 1, 3, 8)))


def test_a_batch_is_cut_evenly_and_always_gets_on() -> None:
    """PL-K13: a source of ours would be read whole in one batch; so the driver cuts, and goes round."""
    bounds = {("a", 0): Bounds(0, 900), ("a", 1): Bounds(0, 100), ("b", 0): Bounds(0, 1)}
    plan = planned({}, bounds, 100)
    assert plan == RangePlan((Range("a", 0, 0, 90), Range("a", 1, 0, 10), Range("b", 0, 0, 1)), waiting=900)


@pytest.mark.parametrize(
    ("bounds", "problem", "words"),
    [
        (
            {("a", 0): Bounds(20, 30)},
            RangeProblem("lost", "a", 0, 10, 20),
            "10 offsets from 10 on were deleted by retention",
        ),
        (
            {("a", 0): Bounds(0, 4)},
            RangeProblem("shrunk", "a", 0, 10, 4),
            "ends at offset 4, and 10 was to be read next",
        ),
        ({}, RangeProblem("gone", "a", 0, 10, 10), "is not there any more; its records up to offset 10 are archived"),
    ],
    ids=lambda value: value.kind if isinstance(value, RangeProblem) else "",
)
def test_a_partition_with_a_problem_waits_and_the_others_go_on(
    bounds: dict[tuple[str, int], Bounds], problem: RangeProblem, words: str
) -> None:
    """Never a dead stream."""
    plan = planned({"a": {0: 10}}, {**bounds, ("b", 0): Bounds(0, 5)}, 100)
    assert plan == RangePlan((Range("b", 0, 0, 5),), (problem,))
    assert words in problem.sentence


def test_an_accepted_loss_goes_on_behind_the_gap_and_is_still_told() -> None:
    plan = planned({"a": {0: 10}}, {("a", 0): Bounds(20, 30)}, 100, accept_loss=True)
    assert plan == RangePlan((Range("a", 0, 20, 30),), (RangeProblem("lost", "a", 0, 10, 20),))


def test_a_topic_made_anew_begins_at_its_first_record_and_one_that_shrank_at_its_end() -> None:
    known, bounds = {"a": {0: 10}, "b": {0: 10}}, {("a", 0): Bounds(0, 30), ("b", 0): Bounds(0, 4)}
    problems = (RangeProblem("anew", "a", 0, 10, 30), RangeProblem("shrunk", "b", 0, 10, 4))
    assert planned(known, bounds, 100, anew={"a"}) == RangePlan((), problems)
    accepted = planned(known, bounds, 100, anew={"a"}, accept_loss=True)
    assert accepted == RangePlan((Range("a", 0, 0, 30), Range("b", 0, 4, 4)), problems)


def test_ranges_survive_the_way_to_a_worker_and_are_cut_into_tasks() -> None:
    ranges = [Range("a", 0, 10, 35)]
    assert from_json(to_json(ranges)) == ranges
    assert list(ranges[0].parts(10)) == [Range("a", 0, 10, 20), Range("a", 0, 20, 30), Range("a", 0, 30, 35)]


@pytest.mark.parametrize(
    ("offsets", "tasks", "size"),
    [(1_000_000, 4, 250_000), (1_000_000, 200, 5_000), (1_000_000, 10, 100_000), (10, 4, 5_000), (10**9, 4, 250_000)],
)
def test_a_cluster_has_work_for_all_of_its_cores(offsets: int, tasks: int, size: int) -> None:
    """FP-10, GP-12: a million records are four tasks on a laptop and two hundred on a hundred cores."""
    assert task_size(offsets, tasks) == size


@pytest.mark.parametrize(
    ("records", "cores", "tasks"), [(1_000_000, 2, 20), (1_000_000, 64, 64), (1_000_000, 1_000, 200), (300, 64, 2)]
)
def test_a_batch_is_written_by_all_cores_in_files_that_are_worth_it(records: int, cores: int, tasks: int) -> None:
    """GP-12: a batch had at most twenty tasks on any cluster."""
    assert tasks_of(records, cores) == tasks
