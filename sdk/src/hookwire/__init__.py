"""hookwire invites: what other programs import to publish, to receive and to work.

Five doors, each usable alone, with as few dependencies as possible::

    your program                                               the hub
    ------------                                               -------
    client     publish(topic, payload, key=...)  -- HTTP -->   POST /topics/{topic}/events    202 after COMMIT
    stash      inside your own transaction       -- SQL --->   hookwire.publish(...)          exists iff you commit
    verify     in your callback                  <- HTTP --    a delivery, Standard Webhooks  the raw bytes are checked
    jobs       inside your own transaction       -- SQL --->   hookwire.enqueue(...) and queues; hookwire.jobs
    services   call and offer services           <- ZMQ --->   hookwire broker                heartbeats and retries

* The *client* repeats a POST only under one Idempotency-Key: a 503 or a lost answer may hide a COMMIT.
* The *stash* (:mod:`hookwire.outbox`) takes the caller's connection and never opens one: the event is part of the
  caller's transaction.
* The *signature check* (:mod:`hookwire.signature`) works on the bytes as received, in constant time, with several keys
  during a rotation.
* The *worker* of :mod:`hookwire.jobs` returns what it holds when it is told to stop, and loses it by its lease when it
  is killed.
* The *services* (:mod:`hookwire.services`) need the extra ``zmq``; a client repeats a request until it is answered.

It shares no code with the service: what both know is published in ``openapi/`` (the event's schema, the vectors of the
key hash), and each side proves itself against that.

Stash, signature check, jobs and services are here; the HTTP client is the plan.
"""

from hookwire.outbox import NotInTransaction, stash
from hookwire.record import Record
from hookwire.signature import Delivery, SignatureRefused, verify, verify_hub

__all__ = ["Delivery", "NotInTransaction", "Record", "SignatureRefused", "stash", "verify", "verify_hub"]
