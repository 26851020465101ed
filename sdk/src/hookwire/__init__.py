"""The SDK: the package that other programs import to publish, receive and work.

Its parts can be used separately and have few dependencies::

    your program                                               the hub
    ------------                                               -------
    client     publish(topic, payload, key=...)  -- HTTP -->   POST /topics/{topic}/events    202 after COMMIT
    stash      inside your own transaction       -- SQL --->   hookwire.publish(...)          exists iff you commit
    verify     in your callback                  <- HTTP --    a delivery, Standard Webhooks  the raw bytes are checked
    jobs       inside your own transaction       -- SQL --->   hookwire.enqueue(...) and queues; hookwire.jobs
    services   call and offer services           <- ZMQ --->   hookwire broker                heartbeats and retries

* The *client* (:mod:`hookwire.client`) needs the extra ``http``. It repeats a POST only under the same Idempotency-Key,
  because the first POST may have been committed despite a 503 or a lost answer.
* The *stash* (:mod:`hookwire.outbox`) uses the caller's connection and never opens one: the event is part of the
  caller's transaction.
* The *signature check* (:mod:`hookwire.signature`) checks the bytes as received, in constant time, with several keys
  during a rotation.
* The *worker* of :mod:`hookwire.jobs` releases its jobs when it is stopped. If it is killed, their leases end.
* The *services* (:mod:`hookwire.services`) need the extra ``zmq``. A client repeats a request until it is answered.

The SDK shares no code with the service. Both are tested against the event's schema and the vectors of the key hash in
``openapi/``. The names of the client are imported when they are used first.
"""

from typing import TYPE_CHECKING, Any

from hookwire.outbox import NotInTransaction, stash
from hookwire.record import Record
from hookwire.signature import Delivery, SignatureRefused, verify, verify_hub

if TYPE_CHECKING:
    from hookwire.client.event import Event, Outcome, Published
    from hookwire.client.hookwire import AsyncHookwire, Hookwire
    from hookwire.error import (
        ApiRefused,
        Conflict,
        Forbidden,
        HookwireError,
        NotFound,
        RateLimited,
        TimedOut,
        TooLarge,
        Unreachable,
    )

__all__ = [
    "ApiRefused",
    "AsyncHookwire",
    "Conflict",
    "Delivery",
    "Event",
    "Forbidden",
    "Hookwire",
    "HookwireError",
    "NotFound",
    "NotInTransaction",
    "Outcome",
    "Published",
    "RateLimited",
    "Record",
    "SignatureRefused",
    "TimedOut",
    "TooLarge",
    "Unreachable",
    "stash",
    "verify",
    "verify_hub",
]

_CLIENT = ("AsyncHookwire", "Hookwire")
_EVENTS = ("Event", "Outcome", "Published")


def __getattr__(name: str) -> Any:
    """Import a name of the client."""
    from importlib import import_module

    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "client.hookwire" if name in _CLIENT else "client.event" if name in _EVENTS else "error"
    found = getattr(import_module(f"hookwire.{module}"), name)
    globals()[name] = found
    return found
