"""RepeatRules: what an ``Idempotency-Key`` does on each POST of the API, by the path in OpenAPI (ADR 70).

A POST that is in no table fails the tests. ``KEPT`` answers a repeat with the first answer. ``OWN`` has a rule of its
own. ``REFUSED`` refuses the header. ``SAFE`` makes nothing, or acts once by a receipt: the header changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.types import Scope

from app.web.api.route.refusals import refusals
from app.web.problem import PROBLEM_MEDIA_TYPE, Problem

__all__ = ["FORMER", "KEPT", "OWN", "REFUSED", "SAFE", "announce_repeats", "keys_given", "repeat_key"]

_KEY_MAX: Final = 255

KEPT: Final[dict[str, str]] = {
    "/subscriptions": "secret",
    "/subscriptions/{subscription_id}/keys": "secret",
    "/subscriptions/pull": "",
    "/subscriptions/{subscription_id}/replay": "",
    "/subscriptions/{subscription_id}/test": "",
    "/queues": "",
    "/queues/{queue}/messages": "",
    "/jobs": "",
    "/replays": "",
    "/hub": "",
    "/hub/content": "",
    "/hub/callback/{token}": "",
    "/rabbithub/endpoint/{kind}/{name}": "",
    "/rabbithub/subscribe/{kind}/{name}": "",
    "/rabbithub/subscriptions": "",
    "/subscriptions/{subscription_id}/denial": "",
    "/erasures": "",
    "/deliveries/{delivery_id}/retry": "",
    "/deliveries/{delivery_id}/give-up": "",
    "/queues/{queue}/pause": "",
    "/queues/{queue}/resume": "",
    "/queues/{queue}/dead/redrive": "",
    "/queues/{queue}/dead/purge": "",
    "/tasks/dead/redrive": "",
    "/tasks/dead/purge": "",
    "/tasks/{task_id}/cancel": "",
    "/services/{name}/disable": "",
    "/services/{name}/enable": "",
    "/job-kinds/{kind}/pause": "",
    "/job-kinds/{kind}/resume": "",
    "/jobs/{job_id}/assign": "",
    "/jobs/{job_id}/unassign": "",
    "/jobs/{job_id}/delay": "",
    "/jobs/{job_id}/finish": "",
    "/jobs/{job_id}/approve": "",
    "/jobs/{job_id}/send-back": "",
    "/jobs/{job_id}/decline": "",
    "/jobs/{job_id}/cancel": "",
    "/jobs/{job_id}/retry": "",
    "/sinks/{sink}/pause": "",
    "/sinks/{sink}/resume": "",
    "/sources/forget": "",
    "/sources/{source}/pause": "",
    "/sources/{source}/resume": "",
    "/sources/{source}/reset": "",
    "/source-refusals/{refusal}/retry": "",
    "/source-refusals/{refusal}/give-up": "",
    "/incidents/{incident}/acknowledge": "",
    "/incidents/{incident}/resolve": "",
    "/incidents/{incident}/ignore": "",
    "/incidents/{incident}/reopen": "",
    "/holds/{hold}/retry": "",
    "/holds/{hold}/give-up": "",
    "/dead-letters/{dead_letter}/retry": "",
    "/dead-letters/{dead_letter}/purge": "",
    "/replays/{replay}/pause": "",
    "/replays/{replay}/resume": "",
    "/replays/{replay}/cancel": "",
}
"""The POSTs whose answers are kept, each with the member that is a secret, if any."""

FORMER: Final = ("/jobs/kinds/{kind}/pause", "/jobs/kinds/{kind}/resume")
"""Former addresses of such POSTs, which the contract does not name any more."""

OWN: Final[Mapping[str, str]] = {
    "/topics/{topic}/events": "a key counts for its topic",
    "/topics/{topic}/batch": "a key counts for its topic, for each event",
    "/services/{name}": "a key names the request, whose reply may come later",
    "/incidents/{incident}/recover": "a key counts once the probe was delivered; before, a repeat probes again",
}
REFUSED: Final[Mapping[str, str]] = {
    "/keys": "An API key is shown once, so a repeat could not answer with it. Leave the header out; "
    "if an answer was lost, find the new key with GET /keys, revoke it, and create another.",
}

_RECEIPT = "its receipt counts once"
_TAKE = "takes work under a lease, which ends without a settlement"
_ASK = "makes nothing"
SAFE: Final[Mapping[str, str]] = {
    "/filters/test": _ASK,
    "/in/{source}": "the sender's delivery id makes a repeat safe, in a header of its own",
    "/in/{source}/test": "makes at most an example",
    "/subscriptions/{subscription_id}/handshake": _ASK,
    "/incidents/{incident}/probe": "sends one message, and a repeat sends it again",
    "/handshakes/{token}": "its token counts once",
    "/subscriptions/{subscription_id}/dequeue": _TAKE,
    "/subscriptions/{subscription_id}/ack": _RECEIPT,
    "/subscriptions/{subscription_id}/nack": _RECEIPT,
    "/subscriptions/{subscription_id}/extend": _RECEIPT,
    "/queues/{queue}/receive": _TAKE,
    "/queues/{queue}/accept": _RECEIPT,
    "/queues/{queue}/reject": _RECEIPT,
    "/queues/{queue}/extend": _RECEIPT,
    "/services/{name}/claim": _TAKE,
    "/requests/{request_id}/reply": _RECEIPT,
    "/jobs/claim": _TAKE,
    "/jobs/resume": "its token counts once",
    "/jobs/{job_id}/fail": _RECEIPT,
    "/jobs/{job_id}/snooze": _RECEIPT,
    "/jobs/{job_id}/release": _RECEIPT,
    "/jobs/{job_id}/progress": _RECEIPT,
    "/jobs/{job_id}/extend": _RECEIPT,
    "/jobs/{job_id}/complete": _RECEIPT,
}

_HEADER: Final[Mapping[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes repeats safe: the same request with the same key gets the first answer, with "
    "`Idempotency-Replayed: true`. With another request it is refused by 422. Remembered for a day by default.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_REPLAYED: Final[Mapping[str, Any]] = {
    "description": "`true`: this is the answer to an earlier request with the same `Idempotency-Key`.",
    "schema": {"type": "string", "const": "true"},
}


def announce_repeats(path: str, operation: dict[str, Any]) -> None:
    """Describe the header in a POST that keeps its answer."""
    if path not in KEPT and path not in OWN:
        return
    responses = operation["responses"]
    for status, answer in responses.items():
        if str(status).startswith("2"):
            responses[status] = {**answer, "headers": {"Idempotency-Replayed": _REPLAYED, **answer.get("headers", {})}}
    if path in OWN:
        return
    operation.setdefault("parameters", []).append(dict(_HEADER))
    kinds = ("invalid-header", "idempotency-key-in-flight", "idempotency-key-reused")
    for code, answer in refusals(*kinds).items():
        found = responses.get(str(code), {"description": "", "content": {}})
        content = found.get("content", {})
        problem, added = content.get(PROBLEM_MEDIA_TYPE, {}), answer["content"][PROBLEM_MEDIA_TYPE]
        examples = {**problem.get("examples", {}), **added["examples"]}
        words = "; ".join(filter(None, (found["description"], answer["description"])))
        responses[str(code)] = {
            **found, **{name: value for name, value in answer.items() if name == "headers"}, "description": words,
            "content": {**content, PROBLEM_MEDIA_TYPE: {**added, **problem, "examples": examples}},
        }  # fmt: skip


def keys_given(scope: Scope) -> list[bytes]:
    """Return each ``Idempotency-Key`` of a request; the API takes one."""
    return [value for name, value in scope["headers"] if name == b"idempotency-key"]


def repeat_key(given: Sequence[bytes]) -> str:
    """Return the key as text. Raise ``Problem`` for several, or one that is no text of 1 to 255 printable bytes."""
    text = given[0].decode("utf-8", "ignore").strip()
    is_text = text.encode() == given[0].strip() and text.isprintable()
    if len(given) > 1 or not text or not is_text or len(given[0]) > _KEY_MAX:
        raise Problem("invalid-header", "Idempotency-Key is 1-255 printable bytes, once.", parameter="idempotency-key")
    return text
