"""The table of problem kinds: refusals of requests, with cause and cure.

One row makes a kind: its `type` in answers, its page under /problems, its place in the index and its tests follow.
Causes and cures are written for the person who reads the page, without names of tables, hosts or modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from app.web.problem_kind import ProblemKind

_ROWS: Final = (
    # The event and its envelope
    ProblemKind(
        "body-too-large",
        413,
        "The body is too large",
        "The request body, or one event of a batch, has more bytes than this route accepts. Nothing was stored.",
        "Send less in one request: split a batch, or store the content elsewhere and publish a link to it. "
        "The operator can raise the limit for events (HOOKWIRE_EVENT_BYTES_MAX).",
    ),
    ProblemKind(
        "unsupported-media-type",
        415,
        "This media type or coding is not accepted here",
        "The Content-Type does not fit this route, or the body carries a Content-Encoding. "
        "Compressed request bodies are never unpacked, because a few bytes can unpack into gigabytes.",
        "Send the body uncompressed, without Content-Encoding, and with the Content-Type that the route documents.",
    ),
    ProblemKind(
        "malformed-json",
        400,
        "The body is not valid JSON",
        "The body was announced as JSON but does not parse strictly: a syntax error, bytes that are not UTF-8, a "
        "duplicate key, NaN or infinity, a number too large, or nesting too deep.",
        "Check the body with a strict JSON parser; the detail names the place where reading stopped.",
    ),
    ProblemKind(
        "malformed-batch",
        400,
        "The batch cannot be read",
        "The batch has no items, too many items or values, or an item without the announced form. No item was stored.",
        "Correct the fault that the detail names and send the whole batch again.",
    ),
    ProblemKind(
        "line-refused",
        400,
        "This line of the batch was not stored",
        "The line is no event, or is too large. Lines without `error` in the answer were stored.",
        "Correct this line and send it alone. Do not send the stored lines again.",
    ),
    ProblemKind(
        "invalid-cloudevent",
        400,
        "The CloudEvent is not valid",
        "A required attribute (id, source, specversion, type) is missing or empty, or an attribute has the wrong form.",
        "Follow CloudEvents 1.0 for the mode (binary, structured or batch), or leave out the CloudEvents headers.",
    ),
    ProblemKind(
        "invalid-key",
        422,
        "The ordering key is not accepted",
        "The key is empty, too long, or contains characters that cannot be stored (a NUL, or text that is not UTF-8).",
        "Send a short non-empty text in Hookwire-Key or ?key=, or leave the key out if order does not matter.",
    ),
    # Topics, subscriptions, parameters
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
        "unknown-queue",
        404,
        "There is no such queue",
        "Nothing was submitted to this queue yet and it was not created, or it was a temporary queue that has ended. "
        "With automatic creation off, submitting to a new queue ends here too. A consumer of copies that was not "
        "registered ends here as well.",
        "Check the spelling (names are case-sensitive), submit once, or create it with PUT /queues/{queue}.",
    ),
    ProblemKind(
        "unknown-job",
        404,
        "There is no such job",
        "No live job has this id or token, and no recently ended job. With automatic creation of kinds switched off, "
        "enqueueing a job of a new kind ends here too.",
        "Check the id. Ended jobs are kept for the kind's retention_days. Create a kind with PUT /job-kinds/{kind}.",
    ),
    ProblemKind(
        "wrong-state",
        409,
        "The job is in another state",
        "Another caller was faster, or the job has changed meanwhile. Nothing was changed.",
        "Read the job with GET /jobs/{id}: its state, its assignee and its trail show the reason.",
    ),
    ProblemKind(
        "stale-receipt",
        409,
        "The claim is over",
        "The lease or the run limit has ended, or the work was settled, cancelled or closed. Nothing was changed.",
        "Drop the work and claim again. Extend the lease in time, or choose a longer one.",
    ),
    ProblemKind(
        "too-many-queues",
        409,
        "There are too many temporary queues",
        "Each temporary queue costs the database, so their number is limited. Unused ones end by themselves.",
        "Remove those that are not needed with DELETE /queues/{queue}, or raise HOOKWIRE_TEMPORARY_QUEUES_MAX.",
    ),
    ProblemKind(
        "too-many-names",
        409,
        "There are too many names that were made by their use",
        "The topic, queue or service is new. The hub allows no more to be made by use. Nothing was stored.",
        "Check the spelling, or make the name by hand with PUT. Operators can raise the limit that the detail names.",
    ),
    ProblemKind(
        "unknown-service",
        404,
        "There is no such service",
        "This service has had no request and no worker yet, and was not created. With automatic creation switched "
        "off, a request to a new service ends here too.",
        "Check the spelling (names are case-sensitive), or create it with PUT /services/{name}.",
    ),
    ProblemKind(
        "service-unavailable",
        503,
        "The service takes no requests now",
        "An operator has disabled the service, or it refuses requests while it has no worker. Nothing was stored.",
        "Repeat the request later. Operators: `hookwire services show NAME` shows which; start a worker, enable the "
        "service, or set `without_workers` to `queue`.",
        retry_after_seconds=5,
    ),
    ProblemKind(
        "request-failed",
        502,
        "The request was given up",
        "Workers took the request as often as its service allows, and were lost or failed each time.",
        "Look at the detail, repair the worker, and make a new request.",
    ),
    ProblemKind(
        "request-expired",
        504,
        "No worker has answered in time",
        "The request waited for a worker until its expiry. It is not executed any more.",
        "Start a worker and make a new request; give it more time with Hookwire-Expiry-Seconds, or `expiry_seconds`.",
    ),
    ProblemKind(
        "request-closed",
        410,
        "The request of this Idempotency-Key was closed",
        "The key names a request whose reply was fetched and which was closed, or forgotten. It is not repeated.",
        "Use a new key for a new request.",
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
        "invalid-cursor",
        400,
        "The page cursor is not valid",
        "The cursor was not issued by this list, was changed on the way, or belongs to other filters.",
        "Start again without a cursor and follow the next link of each page unchanged.",
    ),
    ProblemKind(
        "invalid-header",
        400,
        "A request header is not valid",
        "A header that this route reads has a value it cannot use.",
        "Correct the header that the detail names, or leave it out.",
    ),
    ProblemKind(
        "invalid-parameter",
        400,
        "A parameter is not valid",
        "A parameter of the path, the query or the body has a value outside of its documented range.",
        "Correct the parameter named in the answer; /docs lists types, ranges and defaults.",
    ),
    ProblemKind(
        "missing-parameter",
        400,
        "A parameter is missing",
        "The route needs a parameter that the request does not carry.",
        "Add the parameter named in the answer.",
    ),
    ProblemKind(
        "duplicate-parameter",
        400,
        "A parameter is given twice",
        "A parameter that has one value was sent several times; choosing one of them would be guessing.",
        "Send the parameter named in the answer exactly once.",
    ),
    # Idempotency
    ProblemKind(
        "idempotency-key-reused",
        422,
        "The Idempotency-Key, or the CloudEvent's identity, belongs to another request",
        "The same Idempotency-Key was used before, on this topic or path, with another key, content type or body; or "
        "the same CloudEvents source and id came with another key, attributes or data. Nothing was stored.",
        "Use a new key, or a new id, for a new request; repeat a request only unchanged.",
    ),
    ProblemKind(
        "idempotency-key-in-flight",
        409,
        "The first request with this Idempotency-Key is still running",
        "A request with the same Idempotency-Key has been received and its outcome is not known yet.",
        "Repeat the request with the same key in a moment: it will get the first one's answer.",
        retry_after_seconds=1,
    ),
    # Authentication
    ProblemKind(
        "unauthorized",
        401,
        "A valid API key is needed",
        "The request carries no Authorization header, more than one, or a key that is unknown, expired or revoked.",
        "Send `Authorization: Bearer hwk_...` with a valid key; keys in the query are never read. Operators create "
        "one with `hookwire keys create`.",
    ),
    ProblemKind(
        "forbidden",
        403,
        "The API key does not allow this",
        "The key is valid, but it lacks the scope that this route needs, or it is for other topics.",
        "Use a key with the scope and the topics that the detail names; operators create one: `hookwire keys create`.",
    ),
    ProblemKind(
        "foreign-page",
        403,
        "A page of another site may not do this",
        "A browser sent the request for a page that does not come from this hub. It sends them with its user's address "
        "and login, so any page could otherwise publish, subscribe and purge here.",
        "Call the hub from a program. For a page that publishes, the operator names its origin in HOOKWIRE_ORIGINS.",
    ),
    ProblemKind(
        "unknown-host",
        421,
        "The hub does not answer under this host name",
        "This hub needs no API key, so it answers to the host of its public URL, its listen address, loopback and "
        "the names in HOOKWIRE_HOSTS only. A site whose name is pointed at the hub could read it otherwise.",
        "Use the public URL. If this name is right, the operator adds it to HOOKWIRE_HOSTS.",
    ),
    ProblemKind(
        "own-request",
        403,
        "The hub does not deliver to itself",
        "This hub sent the request itself: a subscription's callback leads back to it. Its own network may have more "
        "rights than others, so a subscriber could act on the hub by its deliveries.",
        "Name another callback. To put events on a second topic, publish them there.",
    ),
    # The service's own state
    ProblemKind(
        "database-unavailable",
        503,
        "The database cannot be used",
        "The service runs but its PostgreSQL does not answer, or cannot store anything now. Nothing was stored.",
        "Repeat the request later. Operators: /readyz shows whether the database is unreachable (then check "
        "HOOKWIRE_DATABASE_URL and the server behind it), full (it takes no more connections: lower "
        "HOOKWIRE_DATABASE_CONNECTIONS_MAX or raise the server's max_connections), failing (its disk is full, it is "
        "read-only or it lacks memory: the log has the server's own words) or slow (then look at "
        "`hookwire doctor`, and for which sessions its statements wait).",
        retry_after_seconds=5,
    ),
    ProblemKind(
        "outcome-unknown",
        503,
        "It is not known whether the request took effect",
        "The connection to the database broke while the transaction was being committed: it may or may not be stored.",
        "Repeat the request with the same Idempotency-Key. Without one, a repeat may make a second event or job.",
        retry_after_seconds=1,
    ),
    ProblemKind(
        "busy",
        503,
        "The service is overloaded",
        "Too many requests are in flight, or another transaction holds the ordering key. Nothing was stored.",
        "Repeat the request after the time in Retry-After, with growing pauses. If one key stays busy, look for "
        "lock_held in the hub's log: it names the transaction that holds a lock, and the statement that ends it.",
        retry_after_seconds=1,
    ),
    ProblemKind(
        "shutting-down",
        503,
        "This process is shutting down",
        "The process is finishing accepted requests and accepts no new ones.",
        "Repeat the request: another process, or the restarted one, will take it.",
        retry_after_seconds=2,
    ),
    ProblemKind(
        "too-many-requests",
        429,
        "Too many requests",
        "This client has used up its share of requests, connections or pipelined requests.",
        "Slow down and repeat after the time in Retry-After; reuse connections, and publish in batches.",
        retry_after_seconds=1,
    ),
    ProblemKind(
        "internal-error",
        500,
        "Something is broken on our side",
        "The service met an unexpected condition. The operator's log has its request id and the details.",
        "Give the request id to the operator. Repeating a POST is safe with the same Idempotency-Key.",
    ),
    # HTTP itself
    ProblemKind(
        "bad-request",
        400,
        "This is not an acceptable HTTP request",
        "The request breaks the HTTP/1.1 message syntax, or uses a part of it that different servers read differently "
        "(two lengths, bare line feeds, no or several Host headers, absolute targets) and that is therefore refused.",
        "Use an ordinary HTTP/1.1 client library. Behind a proxy, check the fields that the proxy adds to the request.",
    ),
    ProblemKind(
        "precondition-failed",
        412,
        "The object has changed",
        "If-Match names another version than the present one: the object has changed since you read it.",
        "Read it again, look at the differences, and send the change with the new ETag.",
    ),
    ProblemKind(
        "no-consent",
        409,
        "The callback does not agree",
        "The hub asked by OPTIONS whether it may deliver there. The callback did not answer with a "
        "WebHook-Allowed-Origin "
        "that names this hub or is *; or could not be reached.",
        "Let the callback answer OPTIONS with WebHook-Allowed-Origin, or subscribe without the handshake.",
    ),
    ProblemKind(
        "keys-refused",
        409,
        "The signing keys cannot be changed in this way",
        "A subscription has one to ten signing keys: the last one cannot be ended, an eleventh cannot be made. "
        "WebSub subscriptions change their secret by subscribing again; pull subscriptions have none.",
        "Rotate before ending the last key; end one before making an eleventh.",
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
    ProblemKind(
        "not-found",
        404,
        "There is nothing at this address",
        "No route has this path, or the object does not exist or is hidden from your key.",
        "Check the path and the id; /docs lists all routes.",
    ),
    ProblemKind(
        "method-not-allowed",
        405,
        "The method does not fit this address",
        "The address exists but does not answer to this HTTP method.",
        "Use one of the methods in the Allow header of the answer.",
    ),
    ProblemKind(
        "request-timeout",
        408,
        "The request arrived too slowly",
        "The header or the body of the request was not complete in time, or its bytes came in too slowly.",
        "Repeat the request on a better connection, or send less in one request.",
    ),
    ProblemKind(
        "uri-too-long",
        414,
        "The address is too long",
        "The request target has more bytes than the server reads.",
        "Put data into the body instead of the query.",
    ),
    ProblemKind(
        "header-too-large",
        431,
        "The request header is too large",
        "The header fields have more bytes, or are more in number, than the server reads.",
        "Remove unneeded fields, most often cookies or long tokens.",
    ),
)

KINDS: Final[Mapping[str, ProblemKind]] = {row.slug: row for row in _ROWS}


def kinds_in_order() -> list[ProblemKind]:
    """Return the table in the order of the index page: by status, then by slug."""
    return sorted(KINDS.values(), key=lambda kind: (kind.status, kind.slug))
