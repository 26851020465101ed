"""The verdict on facts: what is wrong, why and since when. GU-01, GU-02, GM-05."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.verdict.facts import Facts
from app.verdict.judge import judge
from app.verdict.verdict import Part
from tests.webhooks.test_condition import receiver

NOW = datetime(2026, 1, 15, 9, 30, 0, 999, tzinfo=UTC)
AGO = NOW - timedelta(minutes=2, seconds=10)
AGO_TEXT = "2026-01-15T09:27:50Z"
Row = dict[str, Any]
FORGET = "if it shall not be read, run: hookwire sources forget"
PAUSED: Row = {"paused_at": AGO, "paused_by": "ada", "pause_reason": "Kafka moves"}


def facts(**more: Any) -> Facts:
    return Facts(**({"at": NOW, "open_deliveries": 0, "oldest_delivery_at": None} | more))


def sink(name: str = "kafka", **more: Any) -> Row:
    """A sink that a relay carries and for which nothing waits."""
    return {
        "sink": name, "configured": True, "backlog": 0, "held": 0, "oldest_at": None, "term": 3, "owner": "a-1",
        "led": True, "paused_at": None, "paused_by": None, "pause_reason": None,
    } | more  # fmt: skip


def report(kind: str = "sink", name: str = "kafka", state: str = "backing off", **more: Any) -> Row:
    """What a process reports."""
    return {
        "process": "a-1", "kind": kind, "name": name, "state": state, "reason": "no broker answers", "since": AGO,
        "until": NOW, "is_alive": True, "is_paused": False,
    } | more  # fmt: skip


def subscription(**more: Any) -> Row:
    return receiver(id=1, public_id="sub_1", topic="orders.*") | more


def work(**more: Any) -> Row:
    return {
        "name": "mail", "waiting": 0, "running": 0, "dead": 0, "oldest_at": None, "died_at": None, "is_paused": False,
        "failing": 0, "failing_since": None,
        "bound": 1_000,
    } | more  # fmt: skip


def told(found: Sequence[Part]) -> list[tuple[str, str, str]]:
    return [(part.kind, part.state, part.reason) for part in found]


def test_where_nothing_is_wrong_the_verdict_is_ok() -> None:
    verdict = judge(
        facts(sinks=[sink(), sink("amqp", configured=False)], work={"queue": [work(waiting=2, oldest_at=NOW)]})
    )
    assert (verdict.word, verdict.findings) == ("ok", [])


@pytest.mark.parametrize(
    ("row", "reports", "expected"),
    [
        (
            sink(backlog=3, oldest_at=AGO), [report()],
            ("down", f"Kafka does not answer since {AGO_TEXT}; 3 events wait; no broker answers"),
        ),
        (
            sink("webhooks", backlog=1, oldest_at=NOW), [report(name="webhooks")],
            ("down", f"it fails since {AGO_TEXT}; 1 event waits; no broker answers"),
        ),
        (
            sink(), [report(state="refused", reason="the marker is ahead")],
            ("down", f"it is refused since {AGO_TEXT}; the marker is ahead"),
        ),
        (sink(led=False), [], ("down", "no relay carries it; is one running?")),
        (sink(led=False), [report(is_alive=False)], ("down", "no relay carries it; is one running?")),
        (sink(led=False), [report(state="standby")], ("down", "no relay carries it; is one running?")),
        (
            sink(backlog=2, oldest_at=AGO), [report(state="leading")],
            ("late", "the oldest has waited for 2 min 10 s; 2 events wait"),
        ),
        (
            sink(configured=False, backlog=2), [],
            ("disabled", "not configured; set HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS; 2 events wait"),
        ),
        (
            sink(backlog=2, oldest_at=AGO, **PAUSED), [],
            ("paused", f"paused by ada since {AGO_TEXT}: Kafka moves; 2 events wait"),
        ),
        (
            sink(**PAUSED), [report()],
            ("paused", f"paused by ada since {AGO_TEXT}: Kafka moves; Kafka does not answer since {AGO_TEXT}"),
        ),
        (
            sink(led=False, **PAUSED | {"pause_reason": None}), [],
            ("paused", f"paused by ada since {AGO_TEXT}; no relay carries it"),
        ),
        (sink(backlog=5_000, led=False), [], ("down", "no relay carries it; is one running?; 5,000+ events wait")),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_sink_says_what_stops_it_since_when_and_what_waits(
    row: Row, reports: Sequence[Row], expected: tuple[str, str]
) -> None:
    """GU-01: Kafka was down, three events waited, and the page was green."""
    (part,) = judge(facts(sinks=[row], processes=reports)).findings
    assert (part.state, part.reason) == expected


def test_a_sink_whose_relay_has_just_started_is_no_trouble() -> None:
    """It may have to wait until the lease of the relay before it has ended."""
    verdict = judge(facts(sinks=[sink(led=False)], processes=[report(state="standby", since=NOW)]))
    assert (verdict.word, verdict.findings) == ("ok", [])


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([report("source", "in")], [("source", "down", f"it is not read since {AGO_TEXT}; no broker answers")]),
        (
            [report("source", "in", is_alive=False)],
            [("source", "down", f"its process a-1 is gone since 2026-01-15T09:30:00Z; {FORGET}")],
        ),
        (
            [report("source", "in", "left", is_alive=False, until=AGO)],
            [("source", "down", f"nobody reads it since {AGO_TEXT}, when a-1 stopped; {FORGET}")],
        ),
        (
            [
                report("source", "in", "left", is_alive=False, until=AGO, process="b-1"),
                report("source", "in", "left", is_alive=False, until=AGO - timedelta(days=9)),
            ],
            [("source", "down", f"nobody reads it since {AGO_TEXT}, when b-1 stopped; {FORGET}")],
        ),
        ([report("source", "in", "left", is_alive=False)], []),
        (
            [report("source", "in", "left", is_alive=False, until=AGO, is_paused=True)],
            [("source", "paused", f"paused; nobody reads it since {AGO_TEXT}")],
        ),
        ([report("source", "in"), report("source", "in", "reading", process="b-1")], []),
        ([report("source", "in", "reading", is_alive=False), report("source", "in", "reading", process="b-1")], []),
        (
            [report("source", "in", "idle")],
            [("source", "down", f"it is not read since {AGO_TEXT}; others in its consumer group have all partitions")],
        ),
        ([report("source", "in", "idle", since=NOW)], []),
        ([report("source", "in", "idle"), report("source", "in", "reading", process="b-1")], []),
        (
            [report("source", "in", "idle"), report("source", "in", process="b-1")],
            [("source", "down", f"it is not read since {AGO_TEXT}; no broker answers")],
        ),
    ],
    ids=[
        "fails", "is gone", "was left", "was left by two", "was left just now", "was left while paused",
        "another reads it", "was replaced", "no part", "no part yet", "spare", "the other fails",
    ],
)  # fmt: skip
def test_a_source_is_judged_by_the_best_of_its_processes(reports: Sequence[Row], expected: list[Any]) -> None:
    """GU-01."""
    assert told(judge(facts(processes=reports)).findings) == expected


REFUSED = {"source": "in", "refused": 2, "refused_at": AGO, "holding": 0, "holding_since": None, "bound": 1666}
KEPT = f"2 refused records were kept in the last day, the latest at {AGO_TEXT}"


@pytest.mark.parametrize(
    ("reports", "more", "expected"),
    [
        ([report("source", "in", "reading")], {}, ("dead", KEPT)),
        ([], {}, ("dead", KEPT)),
        ([report("source", "in")], {}, ("down", f"it is not read since {AGO_TEXT}; no broker answers; {KEPT}")),
        (
            [report("source", "in", "reading")],
            {"refused": 0, "refused_at": None, "holding": 1, "holding_since": AGO},
            ("held", f"1 refused record holds a key since {AGO_TEXT}"),
        ),
        (
            [report("source", "in", "reading")], {"refused": 1666},
            ("dead", KEPT.replace("2 refused", "1,666+ refused")),
        ),
    ],
    ids=["reads", "is not read any more", "is down", "holds keys", "has more than are counted"],
)  # fmt: skip
def test_a_source_that_refused_records_is_told(reports: Sequence[Row], more: Row, expected: tuple[str, str]) -> None:
    """GU-01: its kind; records waited for a person, and all was green."""
    assert told(judge(facts(processes=reports, refusals=[REFUSED | more])).findings) == [("source", *expected)]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"state": "denied", "reason": "no"}, "its hub has denied the subscription; no"),
        ({"state": "requested", "reason": None}, "3 requests to its hub have failed; no verification came"),
        ({"state": "fetched", "reason": "it answered 500"}, "3 fetches have failed; it answered 500"),
    ],
)
def test_a_publisher_whose_topic_does_not_come_is_told(more: Row, reason: str) -> None:
    """GU-01: its kind; another hub had denied the subscription, and all was green."""
    row = {"topic": "hookwire.web.1", "url": "https://blog.example/feed", "failures": 3, "since": AGO} | more
    assert told(judge(facts(publishers=[row])).findings) == [("source", "failing", reason)]


def test_a_pattern_that_passes_topics_over_is_told_although_another_process_reads_them() -> None:
    """GU-01: its kind; a topic above the limit was not read, and only a line of the log told it."""
    reason = "1 Kafka topic that fits is not read: b..c: no"
    reports = [report("source", "*", "reading"), report("source", "*", "passing over", process="b-1", reason=reason)]
    assert told(judge(facts(processes=reports)).findings) == [("source", "failing", reason)]


def test_a_queue_whose_messages_were_refused_is_told_although_another_process_reads_it() -> None:
    """GU-01: its kind; the broker has these messages, so their process tells of them."""
    reports = [report("source", "in", "reading"), report("source", "in", "refusing", process="b-1", reason="1 kept")]
    assert told(judge(facts(processes=reports)).findings) == [("source", "dead", "1 kept")]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"waiting": 87, "waiting_since": AGO, "answer_seconds": 4.0, "next_due_at": NOW + timedelta(minutes=1),
             "next_is_claimed": True},
            ("slow", "87 wait, the oldest for 2 min 10 s; it answers in 4.0 s; a delivery is in flight"),
        ),
        (
            {"waiting": 1, "waiting_since": AGO, "answer_seconds": 0.1, "next_due_at": NOW},
            ("behind", "1 waits, the oldest for 2 min 10 s"),
        ),
        (
            {"waiting": 1000, "waiting_since": AGO, "next_due_at": AGO, "last_success_at": None},
            ("behind", "1,000 or more wait, the oldest for 2 min 10 s; no worker has taken it; "
             "is `hookwire deliver` running?"),
        ),
        (
            {"protocol": "pull", "waiting": 3, "waiting_since": AGO},
            ("unfetched", "3 wait, the oldest for 2 min 10 s; its subscriber fetches its events"),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_an_endpoint_whose_deliveries_wait_is_late(more: Row, expected: tuple[str, str]) -> None:
    """GU-02: 87 of one key waited, the oldest for two minutes, and everything was healthy."""
    (part,) = judge(facts(subscriptions=[subscription(**more)])).findings
    assert (part.state, part.reason, part.waiting, part.topic) == (*expected, more["waiting"], "orders.*")


def test_a_delivery_that_has_just_begun_to_wait_is_no_news() -> None:
    """GU-02."""
    row = subscription(waiting=5, waiting_since=NOW - timedelta(seconds=50), next_due_at=NOW, answer_seconds=9.0)
    assert judge(facts(subscriptions=[row])).word == "ok"


@pytest.mark.parametrize(
    ("kind", "more", "expected"),
    [
        ("task", {"waiting": 50, "oldest_at": NOW - timedelta(minutes=6)},
         ("late", "50 wait, the oldest for 6 min; 0 in flight")),
        ("queue", {"waiting": 50, "oldest_at": AGO}, None),
        ("service", {"waiting": 5, "running": 2, "oldest_at": AGO},
         ("late", "5 wait, the oldest for 2 min 10 s; 2 in flight")),
        ("task", {"dead": 3, "died_at": AGO}, ("dead", f"0 wait; 0 in flight; 3 dead, the latest at {AGO_TEXT}")),
        ("job", {"dead": 3, "died_at": NOW - timedelta(days=2)}, None),
        ("queue", {"waiting": 9, "oldest_at": NOW - timedelta(hours=9), "is_paused": True},
         ("paused", "it is paused; 9 wait, the oldest for 9 h; 0 in flight")),
    ],
)  # fmt: skip
def test_work_is_late_after_its_time_and_dead_for_a_day(kind: str, more: Row, expected: tuple[str, str] | None) -> None:
    """GM-05: 50 tasks waited without a worker, three were dead, and nothing told it."""
    found = judge(facts(work={kind: [work(**more)]})).findings
    assert told(found) == ([] if expected is None else [(kind, *expected)])


def test_holds_and_dead_letters_are_told_by_topic_and_what_could_not_be_read_too() -> None:
    """GU-01."""
    hold = {
        "sink": "kafka",
        "topic": "orders",
        "scope": "key",
        "holds": 2,
        "since": AGO,
        "reason": "too_large",
        "detail": "",
    }
    letters = {"sink": "webhooks", "subscription": "sub_1", "topic": "orders.*", "letters": 513, "died_at": AGO}
    verdict = judge(facts(holds=[hold], dead_letters=[letters], unknown=["sinks"]))
    assert [(part.sentence, part.topic) for part in verdict.findings] == [
        (f"hold kafka orders: 2 keys are held since {AGO_TEXT}; too large", "orders"),
        (f"dead letters sub_1: 513 dead letters in the last day, the latest at {AGO_TEXT}", "orders.*"),
        ("facts sinks: this could not be read in time", None),
    ]


def test_the_word_is_that_of_the_worst_part() -> None:
    """GU-01: what stands still as intended is no trouble."""
    paused = work(is_paused=True, waiting=1, oldest_at=AGO)
    words = [
        judge(facts(work={"queue": rows})).word
        for rows in ([], [paused], [paused, work(name="b", died_at=AGO, dead=1)])
    ]
    assert words == ["ok", "attention", "trouble"]
