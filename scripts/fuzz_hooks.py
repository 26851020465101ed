"""Hooks for schemathesis: the form of a batch, and the meaning of a missing type (``make fuzz``)."""

import json
from typing import Any

import schemathesis

_EXPIRY = "hookwire-expiry-seconds"


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context: Any, value: Any) -> bytes:
    """Write one line for each event; text stays unchanged, so that broken lines are tried too."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    lines = value if isinstance(value, list) else [value]
    return b"\n".join(json.dumps(line).encode() for line in lines)


@schemathesis.hook
def before_call(_context: Any, case: Any, _arguments: Any) -> None:
    """Remove waits: no worker answers here, so a waiting caller would only use up the time of the run."""
    if case.operation.path in ("/services/{name}", "/requests/{request_id}"):
        kept = {name: value for name, value in (case.headers or {}).items() if name.lower() != _EXPIRY}
        case.headers = {**kept, "Prefer": "wait=0"}
    if case.operation.path == "/services/{name}/claim" and isinstance(case.body, dict):
        wait = case.body.get("wait_seconds")
        if isinstance(wait, int | float) and 0 < wait <= 20:
            case.body = {**case.body, "wait_seconds": 0}


@schemathesis.hook
def after_call(_context: Any, case: Any, response: Any) -> None:
    """Add the type that a client may assume for an answer without one (RFC 9110, 8.3)."""
    if case.operation.path in ("/topics/{topic}", "/services/{name}", "/requests/{request_id}"):
        response.headers.setdefault("content-type", ["application/octet-stream"])
