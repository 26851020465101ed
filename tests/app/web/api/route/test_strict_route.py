"""app/web/api/route/strict_route.py: what a request's query may hold (ADR 33)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.app.conftest import RunHub
from tests.app.web.publishing.test_ingest import kind

OPENAPI = json.loads((Path(__file__).parents[5] / "openapi" / "openapi.json").read_text())
OTHERS = ("/hub", "/rabbithub", "/handshakes")
"""Where WebSub, RabbitHub and CloudEvents say what may stand in a request."""
DOOR = ("post", "/in/{source}")
"""Its senders may have any query in the address that they were given."""

CHANGES = [
    (method.upper(), re.sub(r"{\w+}", "x", path))
    for path, operations in OPENAPI["paths"].items()
    for method in operations
    if method not in ("get", "head") and not path.startswith(OTHERS) and (method, path) != DOOR
]


async def test_a_request_that_changes_something_refuses_what_it_does_not_know(shared_hub: RunHub) -> None:
    """A purge with ``?dry_run=true`` would be done."""
    async with shared_hub() as hub:
        answers = [await hub.client.request(method, f"{path}?dry_run=true") for method, path in CHANGES]

        refused = [(*kind(answer)[::2], answer.json().get("parameter")) for answer in answers]
        assert dict(zip(CHANGES, refused, strict=True)) == dict.fromkeys(CHANGES, (400, "invalid-parameter", "dry_run"))


@pytest.mark.parametrize("path", ["/topics/a/settings?utm_source=chat", "/healthz?from=probe"])
async def test_a_plain_read_overlooks_what_was_put_behind_its_address(shared_hub: RunHub, path: str) -> None:
    async with shared_hub() as hub:
        await hub.publish("a")
        assert (await hub.client.get(path)).status_code == 200


@pytest.mark.parametrize(
    ("content_type", "outcome"),
    [
        ("application/json", 201),
        ("Application/JSON ; Charset=UTF-8", 201),
        ('application/vnd.x+json;charset="utf8"', 201),
        ("application/json; charset*=latin-1''x", 201),
        (f"application/json; charset*{'7' * 200}*=x", 201),
        (f"application/json; charset*{'7' * 5_000}*=x", 415),
        ('application/json; a="' + ";" * 31_000, 415),
        ("application/json; charset=latin-1", 415),
        ("text/json", 415),
        ("application", 415),
        ("json", 415),
        ("application/json/x+json", 415),
        ("", 415),
    ],
    ids=["plain", "case", "suffix", "extended", "number", "long number", "semicolons", "charset", "text", "no subtype",
         "bare", "two slashes", "none"],
)  # fmt: skip
async def test_a_content_type_is_read_in_linear_time(shared_hub: RunHub, content_type: str, outcome: int) -> None:
    """FS-05: the standard library takes seconds for semicolons, and raises for a number of thousands of digits."""
    body = b'{"topic": "a", "callback": "http://127.0.0.1:9999/"}'
    async with shared_hub() as hub:
        answer = await hub.client.post("/subscriptions", content=body, headers={"Content-Type": content_type})

        refused = kind(answer)[2] if outcome == 415 else ""
        assert (answer.status_code, refused) == (outcome, "unsupported-media-type" if outcome == 415 else "")
