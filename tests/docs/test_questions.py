"""Questions of users that no page answered: Kubernetes, limits, slow endpoints, erasing, PgBouncer, Grafana (FT-20)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs/how-to"
QUESTIONS = {
    "run it on Kubernetes": ("kubernetes.md", "deploy/kubernetes/hub.yaml"),
    "limit a customer": ("limit-a-customer.md", "rate_per_second"),
    "erase a customer's data": ("erase-a-customer.md", "pipeline erase"),
    "how fast an endpoint answers": ("metrics.md", "percentile_disc"),
    "behind PgBouncer": ("production.md", "PgBouncer"),
    "in Grafana": ("metrics.md", "examples/grafana/hookwire.json"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_in_users_words_has_its_page(question: str) -> None:
    """FT-20: and the index leads to it."""
    page, answer = QUESTIONS[question]

    assert answer in (HOW_TO / page).read_text("utf-8")
    assert f"(how-to/{page})" in (ROOT / "docs/README.md").read_text("utf-8")


def test_the_readme_begins_with_listen_and_gives_rates_that_can_be_read() -> None:
    """FT-18: events per second; `hookwire listen` before any callback; docker compose up; no package to install."""
    readme = (ROOT / "README.md").read_text("utf-8")
    numbers = readme.partition("## Numbers")[2].partition("\n## ")[0]
    tour = readme.partition("## Five minutes")[2].partition("\n## ")[0]

    assert re.findall(r"\d of (?:a|raw) ", numbers) == []
    assert re.search(r"publishing over HTTP.*\| [\d,]+ to [\d,]+ events/s", numbers)
    assert 0 < tour.index("hookwire listen") < tour.index("/subscriptions")
    assert ("docker compose up" in readme, "pip install" in tour) == (True, False)


def test_the_dashboard_shows_metrics_that_the_page_lists() -> None:
    """FT-20: each metric of an expression is in a table of docs/how-to/metrics.md, which names those that there are."""
    board = json.loads((ROOT / "examples/grafana/hookwire.json").read_text("utf-8"))
    shown = {
        name.removesuffix("_bucket")
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"hookwire_\w+", target["expr"])
    }
    listed = set(re.findall(r"^\| `(hookwire_\w+)`", (HOW_TO / "metrics.md").read_text("utf-8"), re.M))

    assert (shown - listed, len(shown) >= 12) == (set(), True)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_each_answer_in_users_words_is_run_and_held_to_what_it_says() -> None:
    """The page's own blocks run in test_docs.py; an answer without one would be a promise alone."""
    page = (HOW_TO / "questions.md").read_text("utf-8")
    answers = {head: text for head, _, text in (part.partition("\n") for part in page.split("\n## ")[1:])}
    unproved = {
        head for head, text in answers.items() if not re.search(r"^```\w+ test$.*?^<!-- \w+: ", text, re.M | re.S)
    }

    assert (unproved, len(answers) >= 11) == (set(), True)
