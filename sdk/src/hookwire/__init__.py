"""The SDK: the package that other programs import to publish, receive and work.

Its parts can be used separately and have few dependencies::

    your program                                               the hub
    ------------                                               -------
    client     publish(topic, payload, key=...)  -- HTTP -->   POST /topics/{topic}/events    202 after COMMIT
    stash      inside your own transaction       -- SQL --->   hookwire.publish(...)          exists iff you commit
    verify     in your callback                  <- HTTP --    a delivery, Standard Webhooks  the raw bytes are checked
    jobs       inside your own transaction       -- SQL --->   hookwire.enqueue(...) and queues; hookwire.jobs
    services   call and offer services           <- ZMQ --->   hookwire broker                heartbeats and retries

* The *client* repeats a POST only under the same Idempotency-Key, because the first POST may have been committed
  despite a 503 or a lost answer.
* The *stash* (:mod:`hookwire.outbox`) uses the caller's connection and never opens one: the event is part of the
  caller's transaction.
* The *signature check* (:mod:`hookwire.signature`) checks the bytes as received, in constant time, with several keys
  during a rotation.
* The *worker* of :mod:`hookwire.jobs` releases its jobs when it is stopped. If it is killed, their leases end.
* The *services* (:mod:`hookwire.services`) need the extra ``zmq``. A client repeats a request until it is answered.

The SDK shares no code with the service. Both are tested against the event's schema and the vectors of the key hash in
``openapi/``.

Stash, signature check, jobs and services exist; the HTTP client is planned.
"""

from hookwire.outbox import NotInTransaction, stash
from hookwire.record import Record
from hookwire.signature import Delivery, SignatureRefused, verify, verify_hub

__all__ = ["Delivery", "NotInTransaction", "Record", "SignatureRefused", "stash", "verify", "verify_hub"]
