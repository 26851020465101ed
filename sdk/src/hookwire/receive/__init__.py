"""Receivers of deliveries: one core without I/O, and a thin shape for each web framework.

::

    hookwire.receive.fastapi  django  flask  asgi  wsgi        read a request, write an answer
                    '--------------+-------------'
                         receiver: handlers, repeats           runs your function, decides the status
                                   |
                         core: Policy.judge()                  verifies, then reads: events, refusal or handshake

    from hookwire.receive.fastapi import Receiver

    receive = Receiver(secrets=["whsec_..."])

    @receive.on("orders.*")
    async def order(event): ...

The answer is 204 after your function has returned. If it raises, the answer is 500 and the hub repeats the delivery.
"""

from hookwire.receive.core import Event, Handshake, Policy, Refusal, Subscribing
from hookwire.receive.database_seen import DatabaseSeen
from hookwire.receive.receiver import Gone, Later
from hookwire.receive.seen import Seen

__all__ = ["DatabaseSeen", "Event", "Gone", "Handshake", "Later", "Policy", "Refusal", "Seen", "Subscribing"]
