"""Problem kinds of what was sent: the body, the event, a header, a parameter."""

from __future__ import annotations

from typing import Final

from app.web.problem_kind import ProblemKind

ROWS: Final = (
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
    ProblemKind(
        "precondition-failed",
        412,
        "The object has changed",
        "If-Match names another version than the present one: the object has changed since you read it.",
        "Read it again, look at the differences, and send the change with the new ETag.",
    ),
)
