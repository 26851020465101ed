"""Write `db/schema.sql`: the result of all migrations, for people to read. A test proves it fresh.

The text is the output of PostgreSQL 18's pg_dump, without the parts that differ between runs or releases: versions,
session settings, comments. Partitions are left out, because more of them are made while the service runs.
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

SCHEMA_FILE = Path(__file__).parents[1] / "db" / "schema.sql"

_HEAD = "-- What all migrations together make. Written by `make schema`, never by hand.\n"
_PARTITIONS = "hookwire.*_0*"


def dump(database_url: str) -> str:
    """Return the schema `hookwire` of a database on PostgreSQL 18, as the text of `db/schema.sql`."""
    command = [
        str(embedded_bin_dir() / "pg_dump"),
        "--schema-only",
        "--schema=hookwire",
        "--no-owner",
        "--no-privileges",
        f"--exclude-table={_PARTITIONS}",
        database_url,
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if finished.returncode != 0:
        raise ServerFailedError(f"pg_dump failed: {finished.stderr.strip()}")
    return normalised(finished.stdout)


def normalised(text: str) -> str:
    r"""pg_dump's text without comments of its own, session settings and `\restrict` keys; one empty line at most."""
    lines = [
        line
        for line in text.splitlines()
        if not re.match(r"(--( |$)|SET [a-z_]+ = |SELECT pg_catalog\.set_config\(|\\(un)?restrict )", line)
    ]
    return _HEAD + "\n" + re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main() -> int:
    """Boots a server, migrates it, writes the file; exit code 3 when PostgreSQL 18 is missing."""
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
        finally:
            server.discard()
    print(f"{SCHEMA_FILE.relative_to(Path.cwd())} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
