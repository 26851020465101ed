"""A program with a receiver of each shape, whose processes die inside the handler; it prints how each process ended.

    python -m tests.sdk.receive.dying DATABASE_URL

The first process dies before the handler's COMMIT, the second after it. Both leave the hub without an answer. The third
takes the repeat. None has the memory of another.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

import psycopg

from hookwire.receive import DatabaseSeen, Event
from hookwire.testing import sign
from tests.sdk.receive.shapes import SHAPES

SECRET = "whsec_AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
EVENT = Event("evt_1", "orders.created", "ada", 7, body=b"{}")
DIED = 9


async def answer(shape: str, url: str, dies: str) -> int:
    """Return the status of the answer, if the process is still there then."""
    receiving = SHAPES[shape](secrets=[SECRET])

    @receiving.receiver.on()
    def order(event: Event) -> None:
        with psycopg.connect(url) as connection:
            if DatabaseSeen(shape).first(connection, event):
                connection.execute("INSERT INTO effects VALUES (%s)", [shape])
            if dies == "before COMMIT":
                os._exit(DIED)
        if dies == "after COMMIT":
            os._exit(DIED)

    return (await receiving.send("POST", "/one", sign(EVENT, SECRET), EVENT.body)).status_code


def ending(shape: str, url: str, dies: str) -> int:
    """Return how a process that receives the event ended: 9, or the status of its answer."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writing, b"%d" % asyncio.run(answer(shape, url, dies)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or int(said)


if __name__ == "__main__":
    rounds = ("before COMMIT", "after COMMIT", "never")
    print(json.dumps({shape: [ending(shape, sys.argv[1], dies) for dies in rounds] for shape in SHAPES}))
