"""Write `db/schema.sql` and `db/functions`: the result of all migrations, for people to read. A test proves them fresh.

The schema's text is the output of PostgreSQL 18's pg_dump, without the parts that differ between runs or releases:
versions, session settings, comments. Partitions are left out, because more of them are made while the service runs.
Functions are left out, because `db/functions` has them by noun.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from db.migrate import migrate
from scripts.servers.missing import MissingServerError
from scripts.servers.postgres import PostgresServer, embedded_bin_dir
from scripts.servers.process import ServerFailedError
from scripts.servers.warden import WARDEN
from scripts.sql_functions import FOLDER, function_files

SCHEMA_FILE = Path(__file__).parents[1] / "db" / "schema.sql"

_HEAD = "-- What all migrations together make. Written by `make schema`, never by hand.\n"
_PARTITIONS = "hookwire.*_0*"
_SECTION = re.compile(r"^(?=--\n-- Name: )", re.MULTILINE)
_OF_A_FUNCTION = re.compile(r"--\n-- Name: (FUNCTION |.*; Type: FUNCTION;)")


def dump(database_url: str) -> str:
    """Return the schema `hookwire` of a database on PostgreSQL 18, as the text of `db/schema.sql`."""
    command = [
        str(embedded_bin_dir() / "pg_dump"),
        "--schema-only",
        "--schema=hookwire",
        "--no-owner",
        f"--exclude-table={_PARTITIONS}",
        database_url,
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if finished.returncode != 0:
        raise ServerFailedError(f"pg_dump failed: {finished.stderr.strip()}")
    return normalised(finished.stdout)


def normalised(text: str) -> str:
    r"""pg_dump's text without functions, comments of its own, session settings and `\restrict` keys."""
    sections = [section for section in _SECTION.split(text) if not _OF_A_FUNCTION.match(section)]
    lines = [
        line
        for line in "".join(sections).splitlines()
        if not re.match(r"(--( |$)|SET [a-z_]+ = |SELECT pg_catalog\.set_config\(|\\(un)?restrict )", line)
    ]
    return _HEAD + "\n" + re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def write_functions(texts: dict[str, str]) -> None:
    """Write the files of `db/functions`, and remove a file that has no function any more."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.sql"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def main() -> int:
    """Boots a server, migrates it, writes the files; exit code 3 when PostgreSQL 18 is missing."""
    with tempfile.TemporaryDirectory(prefix="hookwire-schema-") as folder:
        Path(folder).chmod(0o711)
        WARDEN.remove(Path(folder))
        try:
            server = PostgresServer("postgres18", Path(folder), embedded_bin_dir(), outlives_us=False)
            server.start()
        except (MissingServerError, ServerFailedError) as error:
            print(error, file=sys.stderr)
            return 3
        try:
            asyncio.run(migrate(server.url))
            SCHEMA_FILE.write_text(dump(server.url), encoding="utf-8")
            write_functions(asyncio.run(function_files(server.url)))
        finally:
            server.discard()
    print(f"{SCHEMA_FILE.relative_to(Path.cwd())} and {FOLDER.relative_to(Path.cwd())} are written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
