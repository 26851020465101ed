"""Begin a migration that changes a SQL function: `make function NAME=claim_jobs`.

The next file of `db/migrations` is written with the function's text of today, which `db/functions` has: its body, its
settings, its comment and its rights.
"""

import argparse
import re
import sys
from pathlib import Path

from db.migrate import migrations
from scripts.sql_functions import FOLDER

MIGRATIONS = FOLDER.parent / "migrations"

_BEGINNING = re.compile(r"^(?=CREATE OR REPLACE FUNCTION hookwire\.)", re.MULTILINE)
_SIGNATURE = re.compile(r"CREATE OR REPLACE FUNCTION hookwire\.((\w+)\(.*\))")
_HEAD = "-- Say here what changes, and why.\n"


class NoSuchFunctionError(LookupError):
    """No single function has this name; the message names those that are meant, or the command that lists them."""


def begin(name: str, folder: Path = MIGRATIONS) -> Path:
    """Write the next migration with today's text of a function, and return its path."""
    text = text_of(name)
    path = folder / f"{len(migrations(folder)) + 1:04}_{name}.sql"
    path.write_text(f"{_HEAD}{text}\n", encoding="utf-8")
    return path


def text_of(name: str) -> str:
    """Return today's text of a function; raise NoSuchFunctionError."""
    found = [
        (match[1], path.name, part.strip())
        for path in sorted(FOLDER.glob("*.sql"))
        for part in _BEGINNING.split(path.read_text(encoding="utf-8"))
        if (match := _SIGNATURE.match(part)) and match[2] == name
    ]
    if not found:
        raise NoSuchFunctionError(f"no function is named {name!r}: the files of db/functions have all of them")
    if len(found) > 1:
        signatures = "".join(f"\n  {signature}" for signature, _, _ in found)
        raise NoSuchFunctionError(
            f"{len(found)} functions are named {name!r}; copy one of them from db/functions/{found[0][1]}:{signatures}"
        )
    return found[0][2]


def main(arguments: list[str] | None = None) -> int:
    """Write the migration and print its path; exit code 2 if no single function has this name."""
    parser = argparse.ArgumentParser(prog="make function", description=__doc__)
    parser.add_argument("name", help="the function's name without its schema, such as claim_jobs")
    try:
        print(begin(parser.parse_args(arguments).name).relative_to(MIGRATIONS.parents[1]))
    except NoSuchFunctionError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
