"""``hookwire call``: ask a service from the shell."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.data import line, read_data, segment
from app.cli.entry import Config, Json, Url, run

__all__ = ["call"]

Service = Annotated[str, typer.Argument(help="The service.")]
Data = Annotated[
    str | None, typer.Argument(help="The request. - reads standard input, @FILE a file; left out: an empty request.")
]
ContentType = Annotated[str | None, typer.Option("--content-type", help="Content type of the request.")]
Wait = Annotated[int, typer.Option("--wait", min=0, max=60, help="Seconds to wait for the reply; 0: print the id.")]
Key = Annotated[
    str | None,
    typer.Option("--idempotency-key", help="Makes repeats safe: requests with the same key are one request."),
]
Expiry = Annotated[
    float | None, typer.Option("--expiry", min=1, help="Seconds until the request expires; default: the service's own.")
]


def call(
    service: Service, data: Data = None, content_type: ContentType = None, wait: Wait = 20,
    idempotency_key: Key = None, expiry: Expiry = None, url: Url = None, as_json: Json = False, config: Config = None,
) -> None:  # fmt: skip
    """Ask a service and print its reply. The request is kept until a worker answers it, even if this command ends.

    Exit codes: 0 a reply (or with --wait 0 an id), 1 no reply, 2 refused, 3 the hub is unreachable.

    Examples:

      hookwire call echo 'hello'

      hookwire call thumbnail @cat.png --content-type image/png > small.png

      hookwire call report --wait 0
    """
    from app.cli.hub_client import hub_of
    from app.cli.service_reply import asked

    target = f"{hub_of(url, config)}/services/{segment(service)}"
    headers = {}
    if content_type is not None:
        headers["Content-Type"] = line("--content-type", content_type)
    if idempotency_key is not None:
        headers["Idempotency-Key"] = line("--idempotency-key", idempotency_key)
    if expiry is not None:
        headers["Hookwire-Expiry-Seconds"] = f"{expiry:g}"
    body = read_data(data)  # read before the event loop runs: under it, Ctrl-C would wait for the end of a read (B-56)
    run(asked(target, body, headers, wait_seconds=wait, as_json=as_json))
