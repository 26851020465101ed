"""`make function` begins a migration with the text that the function has today (GH-02)."""

import shutil
from pathlib import Path

import pytest

from db.migrate import migrations
from scripts.begin_function import MIGRATIONS, NoSuchFunctionError, begin, text_of


def test_the_next_migration_begins_with_todays_text(tmp_path: Path) -> None:
    """GH-02."""
    folder = shutil.copytree(MIGRATIONS, tmp_path / "migrations")
    path = begin("claim_jobs", folder)
    lines = path.read_text(encoding="utf-8").splitlines()
    beginning = "CREATE OR REPLACE FUNCTION hookwire.claim_jobs(kinds text[], most integer, worker text, "

    assert {
        "name": path.name,
        "a comment, then the function": (lines[0][:3], lines[1][: len(beginning)]),
        "settings": [line.strip() for line in lines if line.startswith(" SET ")],
        "last": [line for line in lines if line.startswith(("COMMENT", "REVOKE"))],
        "the loader takes it": migrations(folder)[-1].name,
    } == {
        "name": f"{len(migrations()) + 1:04}_claim_jobs.sql",
        "a comment, then the function": ("-- ", beginning),
        "settings": [
            "SET search_path TO 'pg_catalog', 'pg_temp'",
            "SET enable_seqscan TO 'off'",
            "SET plan_cache_mode TO 'force_generic_plan'",
            "SET jit TO 'off'",
        ],
        "last": [
            "COMMENT ON FUNCTION hookwire.claim_jobs(text[],integer,text,double precision,text) IS",
            "REVOKE EXECUTE ON FUNCTION hookwire.claim_jobs(text[],integer,text,double precision,text) FROM PUBLIC;",
        ],
        "the loader takes it": "claim_jobs",
    }


def test_an_unknown_name_is_refused() -> None:
    """GH-02."""
    with pytest.raises(NoSuchFunctionError, match="no function is named 'claim_job': the files of db/functions have"):
        text_of("claim_job")


def test_functions_of_one_name_are_listed() -> None:
    """GH-02: three functions publish; each has a line with its arguments."""
    with pytest.raises(NoSuchFunctionError) as refused:
        text_of("publish")
    first, *signatures = str(refused.value).splitlines()

    assert (first, [signature[: len("  publish(topic text, payload ") + 4] for signature in signatures]) == (
        "3 functions are named 'publish'; copy one of them from db/functions/event.sql:",
        [
            "  publish(topic text, payload byte",
            "  publish(topic text, payload json",
            "  publish(topic text, payload text",
        ],
    )
