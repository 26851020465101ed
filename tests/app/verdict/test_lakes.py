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
LAST = "the last audit ended at 2026-01-15T02:30:00Z: exit"
AUDIT = "`hookwire pipeline audit --lake s3a://lakes/hub`"
FAILED = "an audit failed at 2026-01-15T08:30:00Z: no answer"


def lake(**more: Any) -> dict[str, Any]:
    """A lake whose audit of this night found nothing."""
    return {
        "lake": "s3a://lakes/hub", "started_at": None, "ended_at": ENDED, "until_at": ENDED - timedelta(hours=2),
        "exit_code": 0, "findings": 0, "not_compared": 0, "has_contents": False, "failed_at": None,
        "failure_code": None, "failure": None, "unaudited_at": None,
    } | more  # fmt: skip


def failed(code: int, **more: Any) -> dict[str, Any]:
    """A lake of which a later audit has failed."""
    return lake(failed_at=NOW - timedelta(hours=1), failure_code=code, failure="no answer", **more)


NEVER = {"ended_at": None, "until_at": None, "exit_code": None, "findings": None, "not_compared": None}


@pytest.mark.parametrize(
    ("row", "state", "word", "reason"),
    [
        (lake(), "ok", "ok", f"{LAST} 0, nothing found up to 2026-01-15T00:30:00Z"),
        (lake(exit_code=1, findings=3), "failing", "trouble", f"{LAST} 1, 3 findings; run {AUDIT} to see them"),
        (lake(exit_code=1, findings=1, has_contents=True), "failing", "trouble",
         f"{LAST} 1, 1 finding; run `hookwire pipeline audit --lake s3a://lakes/hub --contents` to see them"),
        (lake(exit_code=2, not_compared=1), "unknown", "attention",
         f"{LAST} 2, 1 thing not compared; run {AUDIT} to see them"),
        (failed(1), "failing", "trouble", f"{FAILED}; {LAST} 0"),
        (failed(3), "unknown", "attention", f"{FAILED}; {LAST} 0"),
        (failed(2, exit_code=1, findings=3), "failing", "trouble", f"{LAST} 1, 3 findings; run {AUDIT} to see them"),
        (failed(3, **NEVER), "unknown", "attention", f"{FAILED}; no audit of all its hours has ended yet"),
        (lake(unaudited_at=NOW - timedelta(days=4)), "late", "trouble",
         f"events from 2026-01-11T09:30:00Z on were not audited; {LAST} 0; run {AUDIT} every night"),
        (failed(3, unaudited_at=NOW - timedelta(days=4)), "late", "trouble",
         f"events from 2026-01-11T09:30:00Z on were not audited; {LAST} 0; {FAILED}; run {AUDIT} every night"),
        (lake(started_at=NOW - timedelta(hours=23)), "ok", "ok", f"{LAST} 0, nothing found up to 2026-01-15T00:30:00Z"),
        (lake(started_at=NOW - timedelta(hours=31)), "unknown", "attention",
         f"an audit began 1 d 7 h ago, and none has ended since; {LAST} 0"),
        (lake(ended_at=NOW + timedelta(hours=2)), "unknown", "attention",
         "the last audit ended at 2026-01-15T11:30:00Z: exit 0, which is in the future: a clock was wrong; "
         f"run {AUDIT} again"),
        (lake(**NEVER), "unknown", "attention", f"no audit of all its hours has ended yet; run {AUDIT} every night"),
    ],
    ids=["clean", "findings", "findings in contents", "partly", "damaged", "down", "down after findings",
         "never but down", "late", "late and down", "running", "killed", "future", "never"],
)  # fmt: skip
def test_a_lake_is_told_by_its_last_audit(row: dict[str, Any], state: str, word: str, reason: str) -> None:
    """GP-14: a failure does not hide findings, and a failure elsewhere is no trouble."""
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
