"""reqrep answers: reliable request-reply, as protocol machines without sockets (ZeroMQ guide, chapter 4).

A request goes to a named service; whoever serves it may die, freeze, be slow, or start late. Dying and freezing must
look the same to everyone else, hence heartbeats: a peer that was silent for *liveness* intervals is gone.

Majordomo (7/MDP 0.1), the default and the conformance target::

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
       '-- expired, DISCONNECT, or a frame that the state does not allow: told DISCONNECT, forgotten

Around it, each a machine of its own:

* **Lazy, Simple and Paranoid Pirate** (6/PPP): retry by the client; a queue of stateless workers; heartbeats.
* **MMI** (8/MMI): services that begin with ``mmi.`` are answered by the broker itself.
* **Titanic** (9/TSP): the request is stored before it is acknowledged and the reply until it is fetched, in PostgreSQL
  behind a port, so that this room imports nothing of the room ``jobs``.
* **Binary Star**: two brokers, one active; it decides which *broker* answers clients and elects nothing else.
* **Freelance** (10/FLP): many servers, no broker.

Each machine is ``(now, frames) -> (frames, events)`` and imports neither asyncio nor sockets, so that every rule is
tested without a sleep; one module, the only one that imports pyzmq, carries the frames.

Not built yet. This docstring is the plan.
"""
