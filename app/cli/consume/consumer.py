"""``hookwire consume``: run a program for each message of a durable AMQP queue, and never lose one.

::

                 connected, queue declared and bound
    connecting ------------------------------------> consuming <-------------------------------------+
        ^                                               |                                            |
        |  connection, channel or queue lost            | message                                    |
        +---------------- pause, doubled -------------- +--> script --exit 0--> acknowledge ---------+
                                                               |                                     |
                                                               +-fails--> pause, doubled --> give back
                                                               '-fails for the last time--> <queue>.dead, acknowledge

A message is acknowledged only after the program has succeeded. So it comes back after any failure of this process, the
program or the broker. It may come twice, and the program has to handle that. One repeat is avoided: after a success
during a lost connection this process does not run the program again for that event.

With ``--concurrency 1`` (the default) messages are processed in the queue's order, and a failing message delays those
behind it. With more concurrency they are not processed in order. Attempts are counted in this process, and by the
broker for quorum queues. RabbitMQ takes a message back that is held for longer than its ``consumer_timeout`` (30
minutes): keep ``--timeout`` below that.

SIGTERM or SIGINT: finish the running programs, acknowledge, exit 0. A second one kills them; their messages go back.

The options of the command:

==========================  ========================================================================================
``--amqp URL``              ``amqp://`` or ``amqps://``; default HOOKWIRE_AMQP_URL; required
``--queue NAME``            durable queue, created if it is missing; required
``--exchange NAME``         default ``hookwire``; created as a durable topic exchange if it is missing
``--bind PATTERN``          routing pattern, may be repeated; default ``#``, everything
``--exec SCRIPT [args]``    the program, with the rest of the line as its arguments; body on stdin
``--print``                 print bodies instead
``--json``                  one line per message on standard output; the program's own output goes to standard error
``--concurrency N``         programs at once, and messages fetched ahead; default 1
``--count N``               exit 0 after N messages are done or dead
``--attempts-max N``        after N failures the message goes to the durable queue ``NAME.dead``; default unlimited
``--timeout SECONDS``       limit of one run: SIGTERM, 5 s later SIGKILL, and it counts as a failure; default none
``--retry-seconds S``       pause after the first failure; default 1; doubled up to 60
==========================  ========================================================================================

Exit codes: 0 done or stopped, 1 killed by a second signal, 2 wrong use, or a queue that may not be used. 3 means no
broker within ten seconds of the start, or wrong credentials. Once connected, the command waits for a lost broker
without end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from app.bridges.script import Script
from app.cli.consume.message import Memory
from app.cli.consume.options import ConsumeOptions
from app.cli.consume.session import ConsumeSession, Lost
from runtime.pause import pause

__all__ = ["ConsumeOptions", "consume"]

_RECONNECT_SECONDS_FIRST = 0.2
_RECONNECT_SECONDS_MAX = 10.0
_HARD_STOP_SECONDS = 3.0


async def consume(options: ConsumeOptions) -> int:
    """Consume until stopped, or until ``count`` messages are settled. Return the exit code."""
    if mistakes := list(options.mistakes()):
        for mistake in mistakes:
            _say(mistake)
        return 2
    consumer = _Consumer(options)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, consumer.stop)
    try:
        return await consumer.run()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


class _Consumer:
    """Sessions with the broker, one after the other, and the state that outlives them."""

    def __init__(self, options: ConsumeOptions) -> None:
        self._options = options
        self._script = Script(options.command, timeout_seconds=options.timeout_seconds, quiet_stdout=options.json_lines)
        self._memory = Memory()
        self._session: ConsumeSession | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop softly at the first call, and at once at the second."""
        if self._stopping.is_set():
            self._script.kill()
            # A thread that writes to a pipe without a reader cannot be cancelled. It must not keep the process alive.
            asyncio.get_running_loop().call_later(_HARD_STOP_SECONDS, os._exit, 1)
        self._stopping.set()
        if self._session is not None:
            self._session.end()

    async def run(self) -> int:
        """Consume until stopped; return the exit code."""
        clock = asyncio.get_running_loop().time
        give_up_at: float | None = clock() + self._options.connect_seconds_max
        pause_seconds = _RECONNECT_SECONDS_FIRST
        while not self._stopping.is_set():
            self._session = ConsumeSession(self._options, self._script, self._memory, _say)
            try:
                await self._session.run()
                break
            except Lost as lost:
                if self._memory.count == self._options.count:
                    break  # the last acknowledgement may be lost; then the next consumer gets the message again
                if self._session.ready:
                    give_up_at, pause_seconds = None, _RECONNECT_SECONDS_FIRST
                if give_up_at is not None and (lost.exit_code is not None or clock() + pause_seconds > give_up_at):
                    _say(str(lost))
                    return lost.exit_code or 3
                _say(f"{lost}; trying again in {pause_seconds:g} s")
            await pause(self._stopping, pause_seconds)
            pause_seconds = min(2 * pause_seconds, _RECONNECT_SECONDS_MAX)
        return 1 if self._script.killed else 0


def _say(text: str) -> None:
    print(f"hookwire: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this is the command's voice
