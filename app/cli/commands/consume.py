"""``hookwire consume``: run a program for each message of an AMQP queue. The work is ``app.cli.consume.consumer``'s."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.entry import Config, run, settings_from
from app.settings.settings import SettingsRefused

__all__ = ["consume"]

Amqp = Annotated[str | None, typer.Option("--amqp", help="amqp:// or amqps:// URL (default: HOOKWIRE_AMQP_URL).")]
Queue = Annotated[str, typer.Option("--queue", help="Durable queue; created if it is missing.")]
Exchange = Annotated[str, typer.Option("--exchange", help="Durable topic exchange; created if it is missing.")]
Bind = Annotated[list[str] | None, typer.Option("--bind", help="Routing pattern; may be repeated. Default: #.")]
Exec = Annotated[str | None, typer.Option("--exec", help="Program; the rest of the line is its arguments.")]
Print = Annotated[bool, typer.Option("--print", help="Print bodies instead of running a program.")]
JsonLines = Annotated[bool, typer.Option("--json", help="One line of JSON per message on standard output.")]
Concurrency = Annotated[
    int,
    typer.Option(
        "--concurrency",
        help="The largest number of programs that run at once. Above 1, messages are not processed in order.",
    ),
]
Count = Annotated[int | None, typer.Option("--count", help="End after this number of messages.")]
AttemptsMax = Annotated[
    int | None, typer.Option("--attempts-max", help="Failures after which a message goes to QUEUE.dead.")
]
Seconds = Annotated[float | None, typer.Option("--timeout", help="Seconds that one run may take.")]
RetrySeconds = Annotated[
    float, typer.Option("--retry-seconds", help="Pause after a failure in seconds; doubled up to 60.")
]


def consume(
    context: typer.Context, queue: Queue, amqp: Amqp = None, exchange: Exchange = "hookwire", bind: Bind = None,
    program: Exec = None, print_bodies: Print = False, json_lines: JsonLines = False, concurrency: Concurrency = 1,
    count: Count = None, attempts_max: AttemptsMax = None, timeout: Seconds = None, retry_seconds: RetrySeconds = 1.0,
    config: Config = None,
) -> None:  # fmt: skip
    """Run a program for each message of a durable AMQP queue; it is acknowledged when the program exits with 0.

    The body comes on standard input. A message whose program fails is returned to the queue and tried again.

    Examples:

      hookwire consume --amqp amqp://localhost --queue site --bind repo.pushed --exec ./rebuild --all

      hookwire consume --queue audit --print --json --count 10
    """
    from app.cli.consume.consumer import ConsumeOptions
    from app.cli.consume.consumer import consume as consume_queue
    from app.settings.tls import amqp_tls

    settings = settings_from(config)
    url = amqp or (settings.amqp_url.get_secret_value() if settings.amqp_url is not None else None)
    if url is None:
        raise SettingsRefused("name the broker with --amqp or HOOKWIRE_AMQP_URL")
    command = [program, *context.args] if program is not None else list(context.args)
    options = ConsumeOptions(
        url=url, queue=queue, exchange=exchange, bindings=tuple(bind or ("#",)), command=tuple(command),
        print_bodies=print_bodies, json_lines=json_lines, concurrency=concurrency, count=count,
        attempts_max=attempts_max, timeout_seconds=timeout, retry_seconds_first=retry_seconds,
        tls=amqp_tls(settings),
    )  # fmt: skip
    run(consume_queue(options))
