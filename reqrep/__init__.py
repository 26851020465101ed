"""reqrep answers: reliable request-reply over ZeroMQ, without a database (ZeroMQ guide, chapter 4).

A client sends a request to a named service and gets one reply. The worker may die, freeze, be slow or start late; the
broker may be restarted. "Dies" means crashes or freezes, and every protocol here survives both. A peer that was silent
for *liveness* intervals is gone. A client repeats a request on a new socket, so a worker may run it twice; the caller
gets one reply, or an explicit failure.

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
       '-- expired, DISCONNECT, or a message that the state does not allow: told DISCONNECT, removed

The room holds the broker's side; clients and workers are ``hookwire.services`` in the SDK. Both sides share no code,
only the bytes in ``openapi/mdp-vectors.json``:

* :mod:`reqrep.majordomo`: the broker with named services, 8/MMI, policies, and the program ``hookwire broker``.
* :mod:`reqrep.titanic`: stored requests (9/TSP), whose answers outlive caller, worker and broker.
* :mod:`reqrep.pirate`: Simple and Paranoid Pirate (6/PPP), queues without services.
* :mod:`reqrep.binary_star`: two servers of which one is active. It decides which broker answers clients, nothing else.

Each protocol is a machine without I/O: ``(now, frames) -> (frames, events)``. Time is a parameter, so every rule is
tested without a sleep. :mod:`reqrep.transport` is the only module that imports pyzmq; :mod:`reqrep.reactor` is the one
loop; a ``server`` module of each protocol carries frames between them.

Nothing is dropped in silence: each send result is looked at, and each drop has a counter and a reason.
"""
