"""The files of a checkout: all of them, or those that differ from the main branch."""

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = (
    "app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline", "sdk",
)  # fmt: skip
GENERATED: Final = ("db/schema.sql", "db/functions/")
FROZEN: Final = tuple(f"db/migrations/000{number}_" for number in range(1, 8))
"""Migrations that are never edited: docs/adr/0054-migrations-squashed-once.md."""


def git(*arguments: str) -> str:
    """Return what git prints; nothing if it fails."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def _existing(listed: Iterable[str]) -> list[str]:
    return sorted(name for name in set(listed) if (ROOT / name).is_file())


@cache
def all_files() -> tuple[str, ...]:
    """Return the path of each file that git tracks or would add."""
    return tuple(_existing(git("ls-files", "-co", "--exclude-standard").splitlines()))


def base() -> str:
    """Return the commit at which this branch left the main branch."""
    return git("merge-base", "HEAD", "origin/main").strip() or git("merge-base", "HEAD", "main").strip() or "HEAD"


def changed_files() -> list[str]:
    """Return the files that differ from the main branch, and those that git does not know yet."""
    untracked = git("ls-files", "-o", "--exclude-standard")
    return _existing([*git("diff", "--name-only", base()).splitlines(), *untracked.splitlines()])


def is_product(name: str) -> bool:
    """Return whether a file is Python or SQL of a room, written by hand."""
    return name.startswith(tuple(f"{room}/" for room in ROOMS)) and not name.startswith(GENERATED)
