"""Majordomo: a broker with named services (7/MDP 0.1, 18/MDP as 0.2, 8/MMI).

One ROUTER serves clients and workers of both versions. The life of a worker, as the broker sees it::

                 READY                 dispatch
    unknown -------------> idle -----------------------> busy
       ^                    |  ^                          |
       |                    |  '--------- REPLY ----------'
       '-- expired, DISCONNECT, or a message that the state does not allow: gets DISCONNECT, is removed

The life of a request::

    received --> queued --> with a worker --> answered
       |            |             |
       |            |             '-- worker lost: queued again (idempotent service), else refused
       '------------'-- refused: expired, queue full, disabled, bad name

Each refusal is counted under a reason. A client of ``mmi.call`` gets the reason; any other client gets no answer and
retries.

Modules: ``wire`` builds and parses messages, ``broker`` is the state machine, and ``mmi`` answers the broker's own
services. ``door`` knows what each user may do. ``server`` has the socket, and ``program`` puts a whole broker process
together.
"""
