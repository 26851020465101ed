"""Reliable request-reply over ZeroMQ, without a database (ZeroMQ guide, chapter 4).

A client sends a request to a named service and gets one reply. The worker may crash, freeze, be slow or start late, and
the broker may be restarted. A peer that was silent for *liveness* intervals counts as gone. A client repeats a request
on a new socket, so a worker may run it twice. The caller gets one reply, or an explicit failure.

Majordomo (7/MDP 0.1, and 18/MDP on the same socket) is the default::

    client                         broker                             worker
    ------                         ------                             ------
    request(service, body) ---->   queue of the service   <---- READY(service)
                                   oldest idle worker     ----> REQUEST(client, body)
    reply(service, body)   <----   forwarded              <---- REPLY(client, body)
                                                          <---> HEARTBEAT, in silence
                                                          <---> DISCONNECT

The life of a worker, as the broker sees it::

                 READY                 dispatch
    unknown -------------> idle -----------------------> busy
       ^                    |  ^                          |
       |                    |  '--------- REPLY ----------'
       '-- expired, DISCONNECT, or a message that the state does not allow: gets DISCONNECT, is removed

This package is the broker's side. Clients and workers are ``hookwire.services`` in the SDK. The two sides share no
code; both are tested against the messages in ``openapi/mdp-vectors.json``. The parts:

* :mod:`reqrep.majordomo`: the broker with named services, 8/MMI, policies, and the program ``hookwire broker``.
* :mod:`reqrep.titanic`: stored requests (9/TSP), whose answers outlive caller, worker and broker.
* :mod:`reqrep.pirate`: Simple and Paranoid Pirate (6/PPP), queues without services.
* :mod:`reqrep.binary_star`: two servers of which one is active. It decides which broker answers clients, no more.
* :mod:`reqrep.bridge`: requests in the database, for callers and workers over HTTP and SQL.

Each protocol is a state machine without I/O: ``(now, frames) -> (frames, events)``. Time is a parameter, so tests need
no sleep. :mod:`reqrep.transport` is the only module that imports pyzmq, and :mod:`reqrep.reactor` is the event loop.
The ``server`` module of each protocol connects its machine to sockets and the reactor.

Each send is checked. Each dropped message is counted under a reason.
"""
