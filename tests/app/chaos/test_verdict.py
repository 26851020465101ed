"""The words of ``hookwire prove``: FT-17."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from app.chaos import prove
from app.chaos.checker import Promise, Report, SinkReport
from app.chaos.nemesis import Harm
from app.chaos.plan import Fault, FaultKind
from app.chaos.verdict import COLUMNS, FAULTS, LEGEND, PROMISES, ProveRun, legend, sentence, table
from app.chaos.verdict_page import verdict_page
from app.cli.commands.prove import prove as command

ROOT = Path(__file__).parents[3]
HARM = Harm(Fault(0.0, FaultKind.TAKE_OVER), 0.0, 7.5, 40, "child-1 stopped for 4.5 s, then child-2 killed")


def run_of(
    *, failures: tuple[str, ...] = (), unfinished: tuple[str, ...] = (), report: bool = True, **counts: int
) -> ProveRun:
    sinks = (SinkReport("ordered", Promise.RECORD, 9, 9 - counts.get("lost", 0), **counts),)
    found = Report(9, 0, 0, 0, sinks, ()) if report else None
    return ProveRun(5, 44.0, [HARM], list(failures), [], found, list(unfinished))


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (
            run_of(),
            "PASS: 9 events were accepted during 1 fault and each arrived at every sink; "
            "nothing was lost and no key was out of order.",
        ),
        (
            run_of(dead_lettered=1),
            "PASS: 9 events were accepted during 1 fault and each arrived at every sink or became a dead letter; "
            "nothing was lost and no key was out of order.",
        ),
        (run_of(lost=2, invented=1), "FAIL: a promise was broken during 1 fault: lost: 2, invented: 1."),
        (
            run_of(failures=("nobody leads",)),
            "FAIL: the counts are right, but a process failed during 1 fault.",
        ),
        (run_of(report=False), "FAIL: the run ended before its events could be counted, after 1 fault."),
        (
            run_of(on_their_way=2670),
            "NOT FINISHED: 2,670 on their way; 9 events were accepted during 1 fault, nothing was lost, and all "
            "arrivals were in order.",
        ),
        (
            run_of(report=False, unfinished=("child-1 does not answer after 60 s",)),
            "NOT FINISHED: the run ended before its events could be counted, after 1 fault.",
        ),
        (
            run_of(on_their_way=2, inverted=1, unfinished=("2 on their way after 20 s",)),
            "FAIL: a promise was broken during 1 fault: out of order: 1.",
        ),
    ],
    ids=["pass", "dead letters", "lost", "failure", "no counts", "on their way", "no start", "broken and on their way"],
)
def test_the_verdict_is_a_sentence(run: ProveRun, told: str) -> None:
    """FT-17, GU-21: it begins with PASS only where the exit code is 0, and nothing on its way is called lost."""
    assert (sentence(run), sentence(run).startswith("PASS")) == (told, run.holds)


def test_every_word_of_the_table_is_explained() -> None:
    """FT-17: the heads were words such as phantom, and nothing said what they mean."""
    report = run_of().report
    assert report is not None
    heads = table(report.sinks)[0]
    assert (set(heads) - LEGEND.keys(), set(COLUMNS.values()) - LEGEND.keys()) == ({"sink", "promise"}, set())


def test_sinks_promises_and_faults_of_a_run_are_explained_in_the_terminal_too() -> None:
    """FT-17: `record`, `take over` and `unbind` stood in the output, and nothing there said what they mean."""
    words = legend(run_of())

    assert list(words)[: len(LEGEND)] == list(LEGEND)
    assert words.keys() - LEGEND.keys() == {"sink ordered", "promise record", "take over"}
    assert (FAULTS.keys(), PROMISES.keys()) == (set(FaultKind), set(Promise))


@pytest.mark.parametrize(
    ("run", "word"),
    [(run_of(), "PASS"), (run_of(lost=1), "FAIL"), (run_of(unfinished=("2 on their way",)), "NOT FINISHED")],
    ids=["pass", "fail", "not finished"],
)
def test_the_page_says_the_same_as_the_terminal(run: ProveRun, word: str) -> None:
    """FT-17, GU-21: the verdict, the table, the faults and the legend, escaped and without a script."""
    page = verdict_page(run, "hookwire prove --seed 5")
    text = unescape(page)

    assert (f"<title>hookwire prove: {word}</title>" in page, "<script" in page) == (True, False)
    expected = [
        sentence(run),
        *run.unfinished,
        HARM.note,
        "take over",
        "hookwire prove --seed 5",
        *legend(run),
        *legend(run).values(),
    ]
    assert [words for words in expected if words not in text] == []


def test_a_page_of_a_run_that_failed_escapes_what_went_wrong() -> None:
    """FT-17: log lines of processes stand in it."""
    page = verdict_page(run_of(failures=("<script>alert(1)</script>",)), "again")
    assert ("<script" in page, "&lt;script&gt;alert(1)" in page) == (False, True)


def test_help_and_page_name_the_limits_of_the_wait() -> None:
    """GU-15: a run took longer than any text said."""
    assert (prove._PATIENCE.seconds_max, prove._PATIENCE.still_seconds_max) == (600, 20)
    texts = [command.__doc__ or "", (ROOT / "docs/explanation/faults.md").read_text("utf-8")]
    told = [" ".join(text.split()) for text in texts]
    assert [("at most ten minutes" in text, "20 seconds" in text) for text in told] == [(True, True), (True, True)]


@pytest.mark.parametrize("place", ["Makefile", "README.md", "CONTRIBUTING.md"])
def test_no_place_promises_that_a_run_ends_within_a_minute(place: str) -> None:
    """GU-15: it kills and pauses for about a minute, and then it waits."""
    text = " ".join((ROOT / place).read_text("utf-8").split())
    assert [limit for limit in ("at most a minute", "less than a minute") if limit in text] == []
    assert "for about a minute" in text
