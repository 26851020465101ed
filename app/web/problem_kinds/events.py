"""Problem kinds of topics, subscriptions, deliveries and stored events."""

from __future__ import annotations

from typing import Final

from app.web.problem_kind import ProblemKind

ROWS: Final = (
    ProblemKind(
        "invalid-topic",
        422,
        "The topic name is not accepted",
        "A topic is 1-249 characters of A-Z a-z 0-9 . _ - in dot-separated, non-empty words.",
        "Choose a name such as orders.created; map other characters to - or _ on your side.",
    ),
    ProblemKind(
        "unknown-topic",
        404,
        "There is no such topic",
        "Nothing has been published to this topic yet, and it was not created. With automatic creation switched off, "
        "publishing to a new topic ends here too.",
        "Check the spelling (names are case-sensitive), publish once, or create it with PUT /topics/{topic}/settings.",
    ),
    ProblemKind(
        "too-many-names",
        409,
        "There are too many names that were made by their use",
        "The topic, queue or service is new. The hub allows no more to be made by use. Nothing was stored.",
        "Check the spelling, or make the name by hand with PUT. Operators can raise the limit that the detail names.",
    ),
    ProblemKind(
        "unknown-schema",
        404,
        "The topic has no such schema",
        "No schema was stored for this topic, or not this version of it.",
        "List the versions with GET /topics/{topic}/schemas; store one with PUT /topics/{topic}/schema.",
    ),
    ProblemKind(
        "invalid-schema",
        422,
        "The schema gives no columns",
        "A topic's schema is a JSON Schema of the type object. At the place that the detail names, it has a value that "
        "the keyword does not take, a name that cannot be a column, or more than 64 KiB, 200 properties or 8 levels.",
        "Correct this place. References may only name definitions of the schema itself, as #/$defs/address.",
    ),
    ProblemKind(
        "invalid-pattern",
        422,
        "The topic pattern is not accepted",
        "A pattern is a topic name in which a whole word may be * (exactly one word) or # (any number of words).",
        "Write orders.*.created or orders.#; wildcards inside a word, such as ord*, do not exist.",
    ),
    ProblemKind(
        "invalid-filter",
        422,
        "The filter is not accepted",
        "A filter names parts of an event (topic, key, time, content_type, headers, data) and conditions for them. "
        "This one has an unknown operator, a value that an operator cannot compare, or too many conditions; in a test, "
        "the event may have too many values for it.",
        "Correct the part that the detail names; try filters with POST /filters/test or `hookwire test-filter`.",
    ),
    ProblemKind(
        "invalid-callback",
        422,
        "The callback URL is not accepted",
        "The callback must be an absolute http or https URL with a plain host name, without user name, password or "
        "fragment, at most 2,048 characters long. Its port is 80, 443, or one from 1024 on that no database uses.",
        "Correct the URL; put credentials into the query or check the delivery's signature instead.",
    ),
    ProblemKind(
        "callback-refused",
        422,
        "The callback points to a forbidden address",
        "The callback's host is, or resolves to, a private, local, metadata or otherwise special address. Calling it "
        "would give outsiders access to the network behind this server.",
        "Use a publicly reachable address. Operators allow their own networks with "
        "HOOKWIRE_EGRESS_ALLOW_CIDRS or HOOKWIRE_EGRESS_ALLOW_HOSTS.",
    ),
    ProblemKind(
        "event-erased",
        410,
        "The contents of this event were erased",
        "Somebody has erased the contents of the event, on behalf of the person whom it was about. Its row is kept: "
        "its id, its time and what became of its deliveries.",
        "There is nothing to fetch. The topic's address answers again with its next event.",
    ),
    ProblemKind(
        "erasure-waits",
        409,
        "The events are still being delivered",
        "Some of these events have open deliveries or live jobs, or still wait for a sink. Nothing was erased.",
        "Repeat it when they have arrived, or erase with `force`, which ends open deliveries and live jobs.",
    ),
    ProblemKind(
        "delivery-waits",
        409,
        "The delivery cannot be tried just now",
        "Its subscription is disabled or has ended, its receiver asked for a pause, an earlier event of its key comes "
        "first, or an attempt is being made at this moment.",
        "The detail names it: enable the subscription, wait until the time, or retry or give up the earlier event.",
    ),
    ProblemKind(
        "replay-over",
        409,
        "The replay has ended",
        "It is done or was cancelled; neither can be paused, resumed or cancelled.",
        "Start another one: open deliveries are not sent twice.",
    ),
)
