"""What schemathesis cannot know by itself: how a batch is written, what no type means (``make fuzz``)."""

import json
from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context: Any, value: Any) -> bytes:
    """One line for each event; text goes as it is, so that broken lines are tried too."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    lines = value if isinstance(value, list) else [value]
    return b"\n".join(json.dumps(line).encode() for line in lines)


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    """What was published without a type is answered without one; then a client may assume this (RFC 9110, 8.3)."""
    if case.operation.path == "/topics/{topic}":
        response.headers.setdefault("content-type", ["application/octet-stream"])
