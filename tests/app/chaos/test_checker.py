"""The checker is held to the same suspicion as the system: each kind of bad log must be found (MU-24, T18).

A log is written as text: ``"1 2 3 2 3"`` are the ``n`` of one key in the order of arrival.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chaos import checker
from app.chaos.arrivals import Arrival, DeadLetter, OnItsWay
from app.chaos.checker import FINDINGS_PER_KIND_MAX, HistoryFinding, Promise, Report, SinkReport, check
from app.chaos.history import Attempt, PublishOutcome
from app.chaos.mark import Mark
from tests.examples import examples

OK, FAIL, UNKNOWN = PublishOutcome


def a_mark(n: int, key: str | None = "k") -> Mark:
    return Mark("run", "orders", key, n)


def a_history(count: int, key: str | None = "k") -> list[Attempt]:
    return [Attempt(a_mark(n, key), OK, f"evt_abcd2345_{n}") for n in range(1, count + 1)]


def a_log(numbers: str, sink: str = "sink", key: str | None = "k") -> list[Arrival]:
    return [
        Arrival(sink, index, a_mark(int(n), key), f"evt_abcd2345_{n}", sequence=int(n) * 10, term=1)
        for index, n in enumerate(numbers.split())
    ]


def judge(
    history: list[Attempt],
    arrivals: list[Arrival],
    promise: Promise = Promise.RECORD,
    dead_letters: list[DeadLetter] | None = None,
) -> SinkReport:
    return check(history, arrivals, dead_letters or [], {"sink": promise}).sinks[0]


def a_sink_report(promise: Promise = Promise.RECORD, /, **counts: int) -> SinkReport:
    return SinkReport("sink", promise, **counts)


# --- good logs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("promise", Promise)
def test_a_clean_run_holds_every_promise(promise: Promise) -> None:
    report = check(a_history(3), a_log("1 2 3"), [], {"sink": promise})

    assert report == Report(
        accepted=3,
        failed=0,
        unknown=0,
        unknown_half_present=0,
        sinks=(a_sink_report(promise, accepted=3, delivered=3),),
        findings=(),
    )
    assert report.holds


def test_the_checker_judges_each_key_by_itself() -> None:
    history = a_history(2, "a") + a_history(2, "b") + a_history(2, None)
    mixed = [a_mark(1, "a"), a_mark(2, None), a_mark(1, "b"), a_mark(2, "b"), a_mark(1, None), a_mark(2, "a")]

    report = judge(history, [Arrival("sink", index, mark) for index, mark in enumerate(mixed)])

    assert report == a_sink_report(accepted=6, delivered=6)


def test_a_dead_letter_is_not_lost() -> None:
    """I1."""
    report = judge(a_history(3), a_log("1 3"), dead_letters=[DeadLetter("sink", a_mark(2))])

    assert report == a_sink_report(accepted=3, delivered=2, dead_lettered=1)


@pytest.mark.parametrize("numbers", ["1 2", "1"])
def test_an_event_of_unknown_outcome_may_be_there_or_not(numbers: str) -> None:
    """OR-01."""
    report = check([*a_history(1), Attempt(a_mark(2), UNKNOWN)], a_log(numbers), [], {"sink": Promise.RECORD})

    assert (report.unknown, report.unknown_half_present, report.holds) == (1, 0, True)


def test_an_unknown_attempt_that_was_repeated_with_success_is_accepted_once() -> None:
    """OR-01, F01."""
    history = [Attempt(a_mark(1), UNKNOWN, attempt=1), Attempt(a_mark(1), OK, "evt_abcd2345_1", attempt=2)]

    assert judge(history, a_log("1")) == a_sink_report(accepted=1, delivered=1)


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        ([(1, UNKNOWN), (1, FAIL)], (0, 1, 0)),
        ([(1, UNKNOWN), (1, OK)], (1, 0, 0)),
        ([(1, UNKNOWN), (2, FAIL)], (0, 0, 1)),
        ([(1, FAIL), (2, OK)], (1, 0, 0)),
    ],
)
def test_the_last_line_of_an_attempt_counts_and_one_ok_is_enough(
    outcomes: list[tuple[int, PublishOutcome]], counts: tuple[int, int, int]
) -> None:
    """A writer that may be killed writes ``unknown`` before it sends."""
    history = [Attempt(a_mark(1), outcome, attempt=attempt) for attempt, outcome in outcomes]

    report = check(history, [], [], {})

    assert (report.accepted, report.failed, report.unknown) == counts


# --- repeats, by promise -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "adjacent", "non_adjacent", "forbidden_by_record", "forbidden_by_batch"),
    [
        ("1 2 2 3", 1, 0, 0, 0),
        ("1 1 1 2 3 3", 3, 0, 0, 0),
        ("1 2 3 1 2 3", 0, 3, 3, 0),
        ("1 2 1 2 3", 0, 2, 2, 0),
        ("1 2 3 2 3 3", 1, 2, 2, 0),
        ("1 2 3 1 2 2 3", 1, 3, 3, 0),
        ("1 2 3 1 3", 0, 2, 2, 0),
        ("1 2 3 2 3 1", 0, 3, 3, 1),
        ("1 2 3 3 2", 1, 1, 1, 1),
        ("1 2 1 3 2", 0, 2, 2, 1),
        ("1 2 3 2 1 2 3", 0, 4, 4, 1),
    ],
)
def test_each_promise_allows_its_own_repeats(
    numbers: str, adjacent: int, non_adjacent: int, forbidden_by_record: int, forbidden_by_batch: int
) -> None:
    """RR-01, I3, OR-04: a non-adjacent repeat is an order violation unless it is a re-run from the lowest unpurged."""
    count = max(map(int, numbers.split()))
    seen = {"accepted": count, "delivered": count}
    repeats = {"duplicate_adjacent": adjacent, "duplicate_non_adjacent": non_adjacent}

    reports = [judge(a_history(count), a_log(numbers), promise) for promise in Promise]

    assert reports == [
        a_sink_report(Promise.RECORD, **seen, **repeats, duplicate_forbidden=forbidden_by_record),
        a_sink_report(Promise.BATCH, **seen, **repeats, duplicate_forbidden=forbidden_by_batch),
        a_sink_report(Promise.UNORDERED, **seen, **repeats),
    ]
    assert [report.holds for report in reports] == [not forbidden_by_record, not forbidden_by_batch, True]


def test_events_without_a_key_may_come_in_any_order_and_again() -> None:
    """WH-O04."""
    report = judge(a_history(3, None), a_log("3 1 2 1", key=None))

    assert (report, report.holds) == (a_sink_report(accepted=3, delivered=3, duplicate_non_adjacent=1), True)


def relayed(terms: list[list[tuple[int, bool, int]]]) -> list[int]:
    """What correct relays do to one key, term by term: read from the lowest unpurged, send batches, purge, die.

    A batch is (records, whether its purge came through in this term, records that a late purge of an earlier term
    takes away before the next batch).
    """
    sent: list[int] = []
    purged = 0
    for term in terms:
        cursor = purged
        for records, is_purged, taken_away in term:
            sent += range(cursor + 1, cursor + records + 1)
            cursor += records
            purged = cursor if is_purged else purged
            if cursor < min(cursor + taken_away, max(sent)):
                purged = cursor = min(cursor + taken_away, max(sent))
    return sent + list(range(purged + 1, max(sent, default=0) + 1))


BATCHES = st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 2))
RELAYED = st.lists(st.lists(BATCHES, max_size=4), max_size=5).map(relayed)


@settings(deadline=None, max_examples=examples(300))
@given(RELAYED)
def test_whatever_correct_relays_do_keeps_the_batch_promise(sent: list[int]) -> None:
    """RG-02, RR-01."""
    count = len(set(sent))

    report = judge(a_history(count), a_log(" ".join(map(str, sent))), Promise.BATCH)

    assert (report.holds, report.delivered) == (True, count)


@settings(deadline=None, max_examples=examples(300))
@given(RELAYED, st.integers(0, 100))
def test_a_record_that_returns_from_below_the_last_run_breaks_the_batch_promise(sent: list[int], pick: int) -> None:
    """MU-24: a purged record, sent by a stale relay."""
    sent = [1, 2, *(n + 2 for n in sent)]
    last = max(sent)
    stale = 1 + pick % (last - 1)
    log = [*sent, last, last, stale]  # the second of them is a run of its own: all others were purged

    report = judge(a_history(last), a_log(" ".join(map(str, log))), Promise.BATCH)

    assert (report.duplicate_forbidden, report.holds) == (1, False)


# --- bad logs: every kind is found, and only that kind --------------------------------------------------------------

HISTORY = [*a_history(4), Attempt(a_mark(5), FAIL)]
GOOD = a_log("1 2 3 4")
SEEN = {"accepted": 4, "delivered": 4}


def renumbered(arrivals: list[Arrival]) -> list[Arrival]:
    return [replace(arrival, index=index) for index, arrival in enumerate(arrivals)]


@pytest.mark.parametrize(
    ("arrivals", "report"),
    [
        pytest.param([], a_sink_report(accepted=4, lost=4), id="everything lost"),
        pytest.param(GOOD[1:], a_sink_report(accepted=4, delivered=3, lost=1), id="first lost"),
        pytest.param(GOOD[:-1], a_sink_report(accepted=4, delivered=3, lost=1), id="last lost"),
        pytest.param([*GOOD, Arrival("sink", 9, a_mark(5))], a_sink_report(**SEEN, invented=1), id="refused one came"),
        pytest.param([*GOOD, Arrival("sink", 9, a_mark(6))], a_sink_report(**SEEN, invented=1), id="never published"),
        pytest.param(
            [*GOOD, Arrival("sink", 9, a_mark(1)._replace(run="other"))],
            a_sink_report(**SEEN, invented=1),
            id="of another run",
        ),
        pytest.param(
            [*GOOD, Arrival("sink", 9, a_mark(4), "evt_abcd2345_99")],
            a_sink_report(**SEEN, invented=1),
            id="a second event for one publish (F01)",
        ),
        pytest.param(
            [*GOOD, *[Arrival("sink", index, a_mark(6)) for index in (9, 10)]],
            a_sink_report(**SEEN, invented=1),
            id="one invention twice is one",
        ),
        pytest.param(a_log("1 3 2 4"), a_sink_report(**SEEN, inverted=1), id="two swapped"),
        pytest.param(a_log("4 3 2 1"), a_sink_report(**SEEN, inverted=3), id="backwards"),
        pytest.param(
            a_log("1 2 3 4 2"),
            a_sink_report(**SEEN, duplicate_non_adjacent=1, duplicate_forbidden=1),
            id="MU-24 non-adjacent repeat",
        ),
        pytest.param(
            renumbered([*GOOD[:2], replace(GOOD[2], sequence=20), GOOD[3]]),
            a_sink_report(**SEEN, sequence_disorder=1),
            id="sequence does not rise",
        ),
        pytest.param(
            renumbered([*GOOD, replace(GOOD[3], sequence=50)]),
            a_sink_report(**SEEN, duplicate_adjacent=1, sequence_disorder=1),
            id="sequence changes",
        ),
        pytest.param(
            renumbered([replace(GOOD[0], term=2), *GOOD[1:]]),
            a_sink_report(**SEEN, stale_term=3),
            id="MU-01 records of an older term",
        ),
    ],
)
def test_every_kind_of_bad_log_is_found_and_called_by_its_name(arrivals: list[Arrival], report: SinkReport) -> None:
    """RL-02, OR-04, I1, I2, I3, I5."""
    assert (judge(HISTORY, arrivals), report.holds) == (report, False)


def test_a_sink_from_which_nothing_was_heard_has_lost_everything() -> None:
    report = check(a_history(2), a_log("1 2", "amqp"), [], {"kafka": Promise.BATCH, "amqp": Promise.RECORD})

    assert [(sink.sink, sink.lost, sink.holds) for sink in report.sinks] == [("kafka", 2, False), ("amqp", 0, True)]
    assert (report.total("lost"), report.holds) == (2, False)


def test_a_refused_event_among_the_dead_letters_is_invented() -> None:
    """I2: it appears nowhere."""
    report = judge(HISTORY, GOOD, dead_letters=[DeadLetter("sink", a_mark(5))])

    assert report == a_sink_report(**SEEN, invented=1)


@pytest.mark.parametrize(("at_amqp", "given_up", "half"), [("1 2", [], 0), ("1", [], 1), ("1", ["amqp"], 0)])
def test_an_unknown_event_may_not_be_half_there(at_amqp: str, given_up: list[str], half: int) -> None:
    """OR-01."""
    report = check(
        [*a_history(1), Attempt(a_mark(2), UNKNOWN)],
        a_log("1 2", "kafka") + a_log(at_amqp, "amqp"),
        [DeadLetter(sink, a_mark(2)) for sink in given_up],
        {"kafka": Promise.BATCH, "amqp": Promise.RECORD},
    )

    assert (report.unknown_half_present, report.holds) == (half, half == 0)


def test_an_unknown_event_that_is_on_its_way_elsewhere_is_not_half_there() -> None:
    """GU-21, OR-01"""
    report = check(
        [*a_history(1), Attempt(a_mark(2), UNKNOWN)],
        a_log("1 2", "kafka") + a_log("1", "amqp"),
        [],
        {"kafka": Promise.BATCH, "amqp": Promise.RECORD},
        [OnItsWay("amqp", a_mark(2))],
    )

    assert (report.unknown_half_present, report.holds) == (0, True)


@pytest.mark.parametrize(
    ("numbers", "promise", "report"),
    [
        ("1 2", Promise.RECORD, {"delivered": 2, "on_their_way": 1, "lost": 1}),
        ("1 2 3", Promise.RECORD, {"delivered": 3, "lost": 1}),
        ("1 2 4", Promise.RECORD, {"delivered": 3, "on_their_way": 1, "inverted": 1}),
        ("1 2 4", Promise.BATCH, {"delivered": 3, "on_their_way": 1, "inverted": 1}),
        ("1 2 4", Promise.UNORDERED, {"delivered": 3, "on_their_way": 1}),
    ],
    ids=["waits", "arrived since", "overtaken", "overtaken in a batch", "without order"],
)
def test_what_the_database_still_owes_is_on_its_way_and_not_lost(
    numbers: str, promise: Promise, report: dict[str, int]
) -> None:
    """GU-21: of an ordered sink it breaks the promise only if a later event of its key is there already."""
    found = check(a_history(4), a_log(numbers), [], {"sink": promise}, [OnItsWay("sink", a_mark(3))])

    assert found.sinks[0] == a_sink_report(promise, accepted=4, **report)


def test_an_unknown_event_that_became_two_is_invented() -> None:
    arrivals = [Arrival("sink", index, a_mark(1), f"evt_abcd2345_{index + 1}") for index in range(2)]

    assert judge([Attempt(a_mark(1), UNKNOWN)], arrivals).invented == 1


def test_an_unknown_event_has_no_place_in_the_order() -> None:
    """It may have been committed late, after its successors."""
    history = [*a_history(3), Attempt(a_mark(2), UNKNOWN, attempt=1)]
    history[1] = Attempt(a_mark(2), UNKNOWN)

    assert judge(history, a_log("1 3 2")) == a_sink_report(accepted=2, delivered=2)


@pytest.mark.parametrize(("stream", "group"), [("orders-1", 0), ("", 1)])
def test_terms_are_compared_within_one_stream_and_group(stream: str, group: int) -> None:
    """I5: across partitions there is no order."""
    arrivals = renumbered([replace(GOOD[0], term=2, stream=stream, group=group), *GOOD[1:]])

    assert judge(HISTORY, arrivals) == a_sink_report(**SEEN)


# --- the checker's own manners -------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrivals", [list(reversed(GOOD)), a_log("1", "elsewhere")])
def test_logs_out_of_order_or_of_an_unknown_sink_are_a_mistake_of_the_caller(arrivals: list[Arrival]) -> None:
    with pytest.raises(ValueError, match="sink"):
        judge(HISTORY, arrivals)


def test_the_evidence_is_kept_but_bounded() -> None:
    report = check(a_history(100), [], [], {"sink": Promise.RECORD})

    assert (report.total("lost"), len(report.findings)) == (100, FINDINGS_PER_KIND_MAX)
    assert report.findings[0] == HistoryFinding("lost", "sink", a_mark(1))


def blind_to_repeats(lane: checker._Lane, n: int) -> checker._Placement:
    lane.positions.setdefault(n, len(lane.positions))
    return checker._Placement(is_first=False, is_adjacent=True, starts_below=False)


def blind_to_runs(lane: checker._Lane, n: int) -> checker._Placement:
    return REAL_PLACE(lane, n)._replace(starts_below=False)


def adjacent_only_by_number(lane: checker._Lane, n: int) -> checker._Placement:
    placement = REAL_PLACE(lane, n)
    return placement._replace(is_adjacent=not placement.is_first)


REAL_PLACE = checker._Lane.place


@pytest.mark.parametrize("mutant", [blind_to_repeats, blind_to_runs, adjacent_only_by_number])
def test_a_checker_that_ignores_non_adjacent_repeats_does_not_pass_these_tests(
    mutant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MU-24: the logs above tell such a checker from the real one."""
    logs = [("1 2 3 2 3 1", Promise.BATCH), ("1 2 3 1 2 3", Promise.RECORD)]
    verdicts = [judge(a_history(3), a_log(numbers), promise) for numbers, promise in logs]

    monkeypatch.setattr(checker._Lane, "place", mutant)

    assert [judge(a_history(3), a_log(numbers), promise) for numbers, promise in logs] != verdicts
