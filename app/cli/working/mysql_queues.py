"""Queues in MariaDB or MySQL, as the commands use them: ``--database mysql://...``."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from app.cli.entry import say
from app.cli.failure import CommandFailed
from app.cli.listing import print_list
from app.cli.moment import shown_moment
from db.errors import DatabaseError, Refused
from db.mariadb.database import MariaDatabase, MariaOptions, maria_options, open_maria
from hookwire.jobs import Message, Queue
from hookwire.jobs.messages.mysql.verbs import MysqlQueue, queue_names

__all__ = [
    "acted",
    "check_queue",
    "created",
    "listed_queues",
    "opened_queues",
    "printed",
    "printed_messages",
    "submitted",
]

_HEADS: Final = ("Queue", "Available", "Claimed", "Delayed", "Dead", "Oldest")
_IDS_MAX: Final = 500
_PREFIX: Final = "msg_"


@asynccontextmanager
async def opened_queues(url: str) -> AsyncIterator[MariaDatabase]:
    """Yield the database of a URL, closed on exit. Raise CommandFailed for a bad URL and for errors of the server."""
    try:
        database = await open_maria(_options(url))
    except ModuleNotFoundError as error:
        raise CommandFailed(
            f"the driver is missing ({error.name}); install the extra: hookwire-server[mariadb]", 2
        ) from None
    except DatabaseError as error:
        raise CommandFailed(f"--database: {error}", 3) from None
    try:
        yield database
    except Refused as error:
        raise CommandFailed(_words(error), 2) from None
    except DatabaseError as error:
        raise CommandFailed(f"--database: {error}", 3) from None
    except ValueError as error:
        raise CommandFailed(str(error), 2) from None
    finally:
        await database.aclose()


async def check_queue(database: MariaDatabase, name: str) -> None:
    """Raise CommandFailed unless the queue is there."""
    async with database.lend() as connection:
        await Queue(name).count(connection)


async def listed_queues(url: str, *, as_json: bool) -> int:
    """Print the queues of the database with their counts."""
    async with opened_queues(url) as database, database.lend() as connection:
        found = [await _shown(connection, name) for name in await queue_names(connection)]
    rows = ("queue", "available", "claimed", "delayed", "dead")
    print_list(
        found, _HEADS, lambda one: (*(str(one[row]) for row in rows), shown_moment(one["oldest_at"])), ("Queue",),
        "there is no queue yet", as_json=as_json,
    )  # fmt: skip
    return 0


async def printed(url: str, name: str, *, as_json: bool) -> int:
    """Print the counts of a queue."""
    async with opened_queues(url) as database, database.lend() as connection:
        found = await _shown(connection, name)
    say(json.dumps(found, indent=None if as_json else 2))
    return 0


async def created(url: str, name: str, deliveries_max: int, *, archive: bool, as_json: bool) -> int:
    """Make the queue's table if it does not exist."""
    async with opened_queues(url) as database, database.lend() as connection:
        await Queue(name).create(connection, deliveries_max=deliveries_max, archive=archive)
        found = await _shown(connection, name)
    say(json.dumps(found) if as_json else f"{name} is there")
    return 0


async def submitted(
    url: str, name: str, body: bytes, content_type: str | None, delay_seconds: float, *, as_json: bool
) -> int:
    """Submit one message and print its id."""
    async with opened_queues(url) as database, database.lend() as connection:
        await connection.begin()
        number = await Queue(name).submit(connection, body, content_type=content_type, delay_seconds=delay_seconds)
        await connection.commit()
    made = f"{_PREFIX}{number}"
    say(json.dumps({"ids": [made]}) if as_json else made)
    return 0


async def printed_messages(url: str, name: str, most: int, *, dead: bool, as_json: bool) -> int:
    """Print available messages, or dead letters."""
    async with opened_queues(url) as database, database.lend() as connection:
        if dead:
            letters = await MysqlQueue(name).dead(connection, most)
            found = [{**_contents(one), "deliveries": one.deliveries, "reason": one.reason} for one in letters]
        else:
            messages = await Queue(name).browse(connection, most)
            found = [{**_contents(one), "deliveries": one.attempts} for one in messages]
    say(json.dumps({"messages": found}, indent=None if as_json else 2))
    return 0


async def acted(url: str, name: str, verb: str, ids: Sequence[str] | None, *, as_json: bool) -> int:
    """Redrive or purge dead letters: those of the ids, or the 500 with the lowest ids."""
    queue = MysqlQueue(name)
    async with opened_queues(url) as database, database.lend() as connection:
        if ids:
            numbers = [_number(one) for one in ids]
        else:
            numbers = [letter.id for letter in await queue.dead(connection, _IDS_MAX)]
        done = await (queue.redrive if verb == "redrive" else queue.purge)(connection, numbers)
    say(json.dumps({"done": done}) if as_json else f"{done} done")
    return 0


async def _shown(connection: Any, name: str) -> dict[str, Any]:
    counts = await MysqlQueue(name).counts(connection)
    oldest = counts.pop("oldest_at")
    return {"queue": name, **counts, "oldest_at": oldest.isoformat() if oldest else None}


def _contents(message: Message | Any) -> dict[str, Any]:
    """Return what both kinds have, with the payload as text, or as hexadecimal digits if it is none."""
    try:
        payload = {"payload": message.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_hex": message.payload.hex()}
    return {
        "id": f"{_PREFIX}{message.id}",
        "created_at": message.created_at.isoformat(),
        "type": message.type,
        "key": message.key,
        "content_type": message.content_type,
        **payload,
    }


def _number(text: str) -> int:
    number = text.removeprefix(_PREFIX)
    digits = number.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise CommandFailed(f"--id: {text} is no message such as {_PREFIX}7", 2)
    return int(number)


def _words(error: Refused) -> str:
    if "(error 1146)" in error.message:
        return f"there is no such queue; make it by: hookwire queues create ({error.message})"
    return error.message


def _options(url: str) -> MariaOptions:
    """Return the options of a URL. ``?tls=true`` demands TLS, and ``?tls=FILE`` names the certificate authority."""
    try:
        parts = urlsplit(url)
        options = maria_options(urlunsplit(parts._replace(query="")))
        asked = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise CommandFailed(
            "--database must be mysql://user:password@host:3306/database, with ?tls=true or not", 2
        ) from None
    tls = asked.pop("tls", None)
    if asked:
        raise CommandFailed(f"--database: unknown option {', '.join(sorted(asked))}; there is tls", 2)
    if tls is None:
        return options
    try:
        context = ssl.create_default_context(cafile=None if tls == "true" else tls)
    except (OSError, ssl.SSLError) as error:
        raise CommandFailed(f"--database: {tls} holds no certificate authority: {error}", 2) from None
    return replace(options, tls=context)
