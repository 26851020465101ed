"""Reliable request-reply over ZeroMQ: clients and workers of services, with or without a broker.

A worker offers functions and a client calls them through ``hookwire broker``::

    worker = Worker("tcp://127.0.0.1:5555")          client = Client("tcp://127.0.0.1:5555")

    @worker.service("upper")                         client.call("upper", b"hello")  # b"HELLO"
    def upper(body: bytes) -> bytes:
        return body.upper()

    worker.run()

Client and worker may start in any order, and the broker may be restarted: workers register again, and clients repeat
their requests. So a request may run twice. A call returns one reply or raises :class:`NoReply`.

=================================  ==========================================================================
``Client``, ``Worker``             threads; Majordomo 0.1, or 18/MDP by ``version="0.2"``
``AsyncClient``, ``AsyncWorker``   asyncio; one socket for each concurrent call
``Pipeline``, ``AsyncPipeline``    many outstanding requests on one socket, told apart by numbers
``TitanicClient``, ``Async...``    stored requests, which survive the end of caller, worker and broker
``once``, ``RequestStamps``        a repeated request gets the stored reply; its handler runs once
``LazyPirate``, ``PirateWorker``   without services: a server, or a Simple or Paranoid Pirate queue
``ask_in_turn``, ``Freelance...``  without a broker: Freelance models 1, 2 and 3
=================================  ==========================================================================

Each protocol is a state machine without I/O: ``(now, frames) -> (frames, events)``. Only :mod:`transport` imports
pyzmq. Install it with the extra ``zmq``: ``pip install 'hookwire[zmq]'``.
"""

from hookwire.services.async_client import AsyncClient, AsyncPipeline
from hookwire.services.async_worker import AsyncWorker
from hookwire.services.client import Client, LazyPirate
from hookwire.services.error import ClientClosed, NoReply, RequestRefused, RequestUnknown, StillPending
from hookwire.services.freelance import FreelanceBroadcastClient, FreelanceClient, FreelanceReply, ask_in_turn
from hookwire.services.freelance_agent import FreelanceOptions
from hookwire.services.once import MemoryReplyCache, RequestStamps, once
from hookwire.services.pipeline import Pipeline, Reply
from hookwire.services.pirate import PirateOptions
from hookwire.services.presence import HeartbeatOptions
from hookwire.services.server import FreelanceServer, ReplyServer
from hookwire.services.sql_reply_cache import SqlReplyCache
from hookwire.services.titanic import AsyncTitanicClient, TitanicClient, TitanicOptions
from hookwire.services.transport import Curve, curve_from
from hookwire.services.worker import PirateWorker, Worker

__all__ = [
    "AsyncClient",
    "AsyncPipeline",
    "AsyncTitanicClient",
    "AsyncWorker",
    "Client",
    "ClientClosed",
    "Curve",
    "FreelanceBroadcastClient",
    "FreelanceClient",
    "FreelanceOptions",
    "FreelanceReply",
    "FreelanceServer",
    "HeartbeatOptions",
    "LazyPirate",
    "MemoryReplyCache",
    "NoReply",
    "Pipeline",
    "PirateOptions",
    "PirateWorker",
    "Reply",
    "ReplyServer",
    "RequestRefused",
    "RequestStamps",
    "RequestUnknown",
    "SqlReplyCache",
    "StillPending",
    "TitanicClient",
    "TitanicOptions",
    "Worker",
    "ask_in_turn",
    "curve_from",
    "once",
]
