"""``hookwire work``: what it refuses. Its work is in tests/app/web/test_tasks.py and test_jobs_command.py."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application


@pytest.mark.parametrize("other", [["--jobs"], ["--kind", "check"]], ids=str)
def test_messages_and_other_work_are_one_too_many(other: list[str]) -> None:
    """`--queue` with `--jobs` ignored the jobs."""
    finished = CliRunner().invoke(application("work"), ["work", "--queue", "mail", *other, "--", "true"])

    assert isinstance(finished.exception, CommandFailed)
    assert (finished.exception.code, "give one of them" in str(finished.exception)) == (2, True)
