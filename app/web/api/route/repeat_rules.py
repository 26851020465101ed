"""RepeatRules: what an ``Idempotency-Key`` does on each POST of the API, by the path in OpenAPI (ADR 70).

A POST that is in no table fails the tests. ``KEPT`` answers a repeat with the first answer. ``OWN`` has a rule of its
own. ``REFUSED`` refuses the header. ``SAFE`` makes nothing new, so the header changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.web.api.route.refusals import refusals
from app.web.problem import PROBLEM_MEDIA_TYPE

__all__ = ["KEPT", "OWN", "REFUSED", "SAFE", "announce_repeats"]

KEPT: Final[Mapping[str, str]] = {
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
}
"""The POSTs whose answers are kept, each with the member that is a secret, if any."""

OWN: Final[Mapping[str, str]] = {
    "/topics/{topic}/events": "a key counts for its topic",
    "/topics/{topic}/batch": "a key counts for its topic, for each event",
    "/services/{name}": "a key names the request, whose reply may come later",
}
REFUSED: Final[Mapping[str, str]] = {
    "/keys": "An API key is shown once, so a repeat could not answer with it. Leave the header out; "
    "if an answer was lost, find the new key with GET /keys, revoke it, and create another.",
}

_RECEIPT = "its receipt counts once"
_ACT = "acts on what exists; a repeat finds the act done"
_TAKE = "takes work under a lease, which ends without a settlement"
_ASK = "makes nothing"
SAFE: Final[Mapping[str, str]] = {
    "/filters/test": _ASK,
    "/subscriptions/{subscription_id}/handshake": _ASK,
    "/handshakes/{token}": _ACT,
    "/subscriptions/{subscription_id}/denial": _ACT,
    "/subscriptions/{subscription_id}/dequeue": _TAKE,
    "/subscriptions/{subscription_id}/ack": _RECEIPT,
    "/subscriptions/{subscription_id}/nack": _RECEIPT,
    "/subscriptions/{subscription_id}/extend": _RECEIPT,
    "/erasures": _ACT,
    "/deliveries/{delivery_id}/retry": _ACT,
    "/deliveries/{delivery_id}/give-up": _ACT,
    "/queues/{queue}/receive": _TAKE,
    "/queues/{queue}/accept": _RECEIPT,
    "/queues/{queue}/reject": _RECEIPT,
    "/queues/{queue}/extend": _RECEIPT,
    "/queues/{queue}/pause": _ACT,
    "/queues/{queue}/resume": _ACT,
    "/queues/{queue}/dead/redrive": _ACT,
    "/queues/{queue}/dead/purge": _ACT,
    "/tasks/dead/redrive": _ACT,
    "/tasks/dead/purge": _ACT,
    "/tasks/{task_id}/cancel": _ACT,
    "/services/{name}/claim": _TAKE,
    "/services/{name}/disable": _ACT,
    "/services/{name}/enable": _ACT,
    "/requests/{request_id}/reply": _RECEIPT,
    "/job-kinds/{kind}/pause": _ACT,
    "/job-kinds/{kind}/resume": _ACT,
    "/jobs/claim": _TAKE,
    "/jobs/resume": "its token counts once",
    "/jobs/{job_id}/fail": _RECEIPT,
    "/jobs/{job_id}/snooze": _RECEIPT,
    "/jobs/{job_id}/release": _RECEIPT,
    "/jobs/{job_id}/progress": _RECEIPT,
    "/jobs/{job_id}/extend": _RECEIPT,
    "/jobs/{job_id}/complete": _RECEIPT,
    "/jobs/{job_id}/assign": _ACT,
    "/jobs/{job_id}/unassign": _ACT,
    "/jobs/{job_id}/delay": _ACT,
    "/jobs/{job_id}/finish": _ACT,
    "/jobs/{job_id}/approve": _ACT,
    "/jobs/{job_id}/send-back": _ACT,
    "/jobs/{job_id}/decline": _ACT,
    "/jobs/{job_id}/cancel": _ACT,
    "/jobs/{job_id}/retry": _ACT,
    "/sources/{source}/pause": _ACT,
    "/sources/{source}/resume": _ACT,
    "/sources/{source}/reset": _ACT,
    "/sources/refusals/{refusal}/retry": _ACT,
    "/sources/refusals/{refusal}/give-up": _ACT,
    "/holds/{hold}/retry": _ACT,
    "/holds/{hold}/give-up": _ACT,
    "/dead-letters/{dead_letter}/retry": _ACT,
    "/dead-letters/{dead_letter}/purge": _ACT,
    "/replays/{replay}/pause": _ACT,
    "/replays/{replay}/resume": _ACT,
    "/replays/{replay}/cancel": _ACT,
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
