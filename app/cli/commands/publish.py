"""``hookwire publish``: POST an event from the shell."""

from __future__ import annotations

import json
import secrets
import sys
from typing import Annotated, Any

import typer

from app.cli.data import has_waiting_input, is_file, line, read_data, segment
from app.cli.entry import Config, Deadline, Json, Url, run, say
from app.cli.failure import CommandFailed

__all__ = ["publish"]

Topic = Annotated[str, typer.Argument(help="The topic, for example orders.created.")]
Data = Annotated[
    str | None, typer.Argument(help="The event. - reads standard input, @FILE a file; left out: an empty event.")
]
Key = Annotated[str | None, typer.Option("--key", help="Ordering key: events with the same key arrive in order.")]
ContentType = Annotated[
    str | None, typer.Option("--content-type", help="Default: application/json if DATA itself is JSON, else none.")
]
IdempotencyKey = Annotated[
    str | None, typer.Option("--idempotency-key", help="Makes repeats safe. Default: a new key for each call.")
]


def publish(
    topic: Topic, data: Data = None, key: Key = None, content_type: ContentType = None,
    idempotency_key: IdempotencyKey = None, url: Url = None, timeout: Deadline = 30.0, as_json: Json = False,
    config: Config = None,
) -> None:  # fmt: skip
    """Publish an event and print its id. A printed event is stored: the answer comes after COMMIT.

    Examples:

      hookwire publish orders.created '{"order": 4711}' --key customer-17

      hookwire publish site.pushed

      git log -1 --format=%s | hookwire publish repo.pushed - --content-type text/plain

      hookwire publish orders @batch.ndjson --content-type application/x-ndjson
    """
    from app.cli.hub_client import hub_of

    target = f"{hub_of(url, config)}/topics/{segment(topic)}/events"
    named = idempotency_key or f"cli-{secrets.token_hex(8)}"
    headers = {"Idempotency-Key": line("--idempotency-key", named)}
    body = read_data(data)  # read before the event loop runs: under it, Ctrl-C would wait for the end of a read
    if content_type is None and data not in (None, "-") and not str(data).startswith("@") and _is_json(body):
        content_type = "application/json"
    _note_doubts(data, body, content_type)
    if content_type:
        headers["Content-Type"] = line("--content-type", content_type)
    run(_publish(target, body, headers, {"key": key} if key is not None else None, timeout, as_json))


async def _publish(
    target: str, body: bytes, headers: dict[str, str], params: dict[str, str] | None, timeout: float, as_json: bool
) -> int:
    from app.cli.hub_client import post

    try:
        accepted, answer_headers = await post(target, body, headers, params=params, deadline_seconds=timeout)
    except CommandFailed as failed:
        if failed.code != 1:
            raise
        raise CommandFailed(f"{failed}; repeat with --idempotency-key {headers['Idempotency-Key']}", 1) from None
    if notice := answer_headers.get("hookwire-notice"):
        print(f"hookwire: {notice}", file=sys.stderr)  # noqa: T201 - this is the command's voice
    _show(accepted, as_json=as_json)
    return 0


def _show(accepted: Any, *, as_json: bool) -> None:
    if as_json:
        say(json.dumps(accepted))
        return
    for one in accepted if isinstance(accepted, list) else [accepted]:
        say(one["id"])


def _note_doubts(data: str | None, body: bytes, content_type: str | None) -> None:
    """Say on standard error what was probably not meant. The event is stored as it is."""
    if data is None and has_waiting_input():
        print(  # noqa: T201
            "hookwire: standard input was not read; the event is stored empty. To send it, give - as DATA",
            file=sys.stderr,
        )
    if data is not None and is_file(data):
        print(  # noqa: T201
            f"hookwire: the data are the text {data}. To send the contents of the file, write @{data}", file=sys.stderr
        )
    if data is not None and not body:
        print("hookwire: there is no data; the event is stored empty", file=sys.stderr)  # noqa: T201
    looks_like_json = content_type == "application/json" or (content_type is None and body[:1] in (b"{", b"["))
    if body and looks_like_json and not _is_json(body):
        print("hookwire: the data are not valid JSON; the event is stored as it is", file=sys.stderr)  # noqa: T201


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True
