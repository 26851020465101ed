"""The words of ``hookwire prove``: FT-17."""

from __future__ import annotations

from html import unescape

import pytest

from app.chaos.checker import Promise, Report, SinkReport
from app.chaos.nemesis import Harm
from app.chaos.plan import Fault, FaultKind
from app.chaos.verdict import COLUMNS, FAULTS, LEGEND, PROMISES, ProveRun, legend, sentence, table
from app.chaos.verdict_page import verdict_page

HARM = Harm(Fault(0.0, FaultKind.TAKE_OVER), 0.0, 7.5, 40, "child-1 stopped for 4.5 s, then child-2 killed")


def run_of(*, failures: tuple[str, ...] = (), report: bool = True, **counts: int) -> ProveRun:
    sinks = (SinkReport("ordered", Promise.RECORD, 9, 9 - counts.get("lost", 0), **counts),)
    found = Report(9, 0, 0, 0, sinks, ()) if report else None
    return ProveRun(5, 44.0, [HARM], list(failures), [], found)


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
    ],
    ids=["pass", "dead letters", "lost", "failure", "no counts"],
)
def test_the_verdict_is_a_sentence(run: ProveRun, told: str) -> None:
    """FT-17: it begins with PASS only where the exit code is 0."""
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


@pytest.mark.parametrize(("run", "word"), [(run_of(), "PASS"), (run_of(lost=1), "FAIL")], ids=["pass", "fail"])
def test_the_page_says_the_same_as_the_terminal(run: ProveRun, word: str) -> None:
    """FT-17: the verdict, the table, the faults and the legend, escaped and without a script."""
    page = verdict_page(run, "hookwire prove --seed 5")
    text = unescape(page)

    assert (f"<title>hookwire prove: {word}</title>" in page, "<script" in page) == (True, False)
    expected = [sentence(run), HARM.note, "take over", "hookwire prove --seed 5", *legend(run), *legend(run).values()]
    assert [words for words in expected if words not in text] == []


def test_a_page_of_a_run_that_failed_escapes_what_went_wrong() -> None:
    """FT-17: log lines of processes stand in it."""
    page = verdict_page(run_of(failures=("<script>alert(1)</script>",)), "again")
    assert ("<script" in page, "&lt;script&gt;alert(1)" in page) == (False, True)
