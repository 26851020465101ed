"""What the verdict and `hookwire doctor` tell of the last audit of a lake."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.checks.lakes import audit_checks
from app.verdict.judge import judge
from app.verdict.lakes import lake_parts
from tests.app.verdict.test_judge import facts

NOW = datetime(2026, 1, 15, 9, 30, tzinfo=UTC)
ENDED = NOW - timedelta(hours=7)
ENDED_TEXT = "the last audit ended at 2026-01-15T02:30:00Z: exit"
OLD = NOW - timedelta(days=4)


def lake(**more: Any) -> dict[str, Any]:
    """A lake whose audit of this night found nothing."""
    return {
        "lake": "s3a://lakes/hub", "changed_at": NOW, "ended_at": ENDED, "until_at": ENDED - timedelta(hours=2),
        "exit_code": 0, "findings": 0, "not_compared": 0, "reason": None,
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("row", "state", "word", "reason"),
    [
        (lake(), "ok", "ok", f"{ENDED_TEXT} 0, nothing found up to 2026-01-15T00:30:00Z"),
        (
            lake(exit_code=1, findings=3), "failing", "trouble",
            f"{ENDED_TEXT} 1, 3 findings; run `hookwire pipeline audit` to see them",
        ),
        (
            lake(exit_code=2, not_compared=1), "unknown", "attention",
            f"{ENDED_TEXT} 2, 1 thing not compared; run `hookwire pipeline audit` to see them",
        ),
        (lake(exit_code=1, until_at=None, reason="bronze is damaged"), "failing", "trouble",
         f"{ENDED_TEXT} 1; bronze is damaged"),
        (lake(exit_code=3, until_at=None, reason="no answer"), "failing", "trouble", f"{ENDED_TEXT} 3; no answer"),
        (lake(exit_code=2, until_at=None, reason="nothing can be judged yet"), "unknown", "attention",
         f"{ENDED_TEXT} 2; nothing can be judged yet"),
        (
            lake(ended_at=OLD), "late", "trouble",
            "no audit for 4 d, and the lake has changed since; the last audit ended at 2026-01-11T09:30:00Z: exit 0; "
            "run `hookwire pipeline audit` every night",
        ),
        (lake(ended_at=OLD, changed_at=OLD), "ok", "ok",
         "the last audit ended at 2026-01-11T09:30:00Z: exit 0, nothing found up to 2026-01-15T00:30:00Z"),
        (lake(ended_at=OLD, changed_at=None), "ok", "ok",
         "the last audit ended at 2026-01-11T09:30:00Z: exit 0, nothing found up to 2026-01-15T00:30:00Z"),
        (
            lake(ended_at=None, exit_code=None), "unknown", "attention",
            "no audit of it has ended yet; run `hookwire pipeline audit` every night",
        ),
    ],
    ids=["clean", "findings", "partly", "damaged", "down", "too early", "late", "unchanged", "unmarked", "never"],
)  # fmt: skip
def test_a_lake_is_told_by_its_last_audit(row: dict[str, Any], state: str, word: str, reason: str) -> None:
    """GP-14."""
    (part,) = lake_parts([row], NOW)
    assert (part.kind, part.name, part.state, part.word, part.reason) == ("lake", row["lake"], state, word, reason)


def test_the_verdict_and_doctor_say_the_same() -> None:
    """GP-14: findings are trouble in one and a warning in the other."""
    rows = [lake(exit_code=1, findings=3), lake(lake="file:///lake")]
    verdict = judge(facts(lakes=rows, at=NOW))
    checks = audit_checks(rows, NOW)
    assert verdict.word == "trouble"
    assert {(check.subject, check.detail) for check in checks} == {
        (f"audit of {part.name}", part.reason) for part in verdict.of("lake")
    }
    assert [check.level for check in checks] == ["warn", "ok"]


def test_a_hub_without_a_lake_has_no_word_of_one() -> None:
    """GP-14."""
    assert (judge(facts()).of("lake"), audit_checks([], NOW)) == ([], [])
