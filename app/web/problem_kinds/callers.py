"""Problem kinds of who calls, from where, and what was sent again."""

from __future__ import annotations

from typing import Final

from app.web.problem_kind import ProblemKind

ROWS: Final = (
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
        "signature-refused",
        403,
        "There is no such source, or the signature is wrong",
        "A webhook came to a door of an inbound source. No source has this name, or the request is not signed with a "
        "secret of the source, or it was signed too long ago. The answer does not say which.",
        "The operator sees the reason: GET /in/{source}, or `hookwire sources show`. Compare the secret at the sender "
        "with the one of the source, and send the body byte for byte.",
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
)
