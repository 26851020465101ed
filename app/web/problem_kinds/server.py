"""Problem kinds of the state of the server, and HTTP itself."""

from __future__ import annotations

from typing import Final

from app.web.problem_kind import ProblemKind

ROWS: Final = (
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
        "secret-unreadable",
        503,
        "A stored secret cannot be read",
        "Secrets are stored encrypted. This process lacks the key of one, or the stored text was changed. Nothing was "
        "stored.",
        "Repeat the request later. Operators: the log names the key that is missing. Add it to HOOKWIRE_SECRET_KEYS, "
        "or restore secret.keys in HOOKWIRE_DATA_DIR, and restart. If the key is lost, store the secret anew.",
        retry_after_seconds=60,
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
    ProblemKind(
        "bad-request",
        400,
        "This is not an acceptable HTTP request",
        "The request breaks the HTTP/1.1 message syntax, or uses a part of it that different servers read differently "
        "(two lengths, bare line feeds, no or several Host headers, absolute targets) and that is therefore refused.",
        "Use an ordinary HTTP/1.1 client library. Behind a proxy, check the fields that the proxy adds to the request.",
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
