"""PostgreSQL's own programs, of the version of the server that they work on."""

import asyncio
import subprocess

import asyncpg

from scripts.servers.postgres import embedded_bin_dir, system_bin_dir

_EMBEDDED_MAJOR = 18


def program(url: str, name: str, *arguments: object) -> str:
    """Return what a program prints that belongs to the server at this URL. It waits, so call it in a thread."""
    folder = embedded_bin_dir() if asyncio.run(_major(url)) == _EMBEDDED_MAJOR else system_bin_dir()
    command = [str(folder / name), *map(str, arguments)]
    return subprocess.run(command, check=True, timeout=120, capture_output=True, text=True).stdout


async def _major(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(connection.get_server_version().major)
    finally:
        await connection.close()
