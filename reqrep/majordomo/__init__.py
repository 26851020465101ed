"""Majordomo: a broker with named services (7/MDP 0.1, 18/MDP as 0.2, 8/MMI).

One ROUTER serves clients and workers of both versions. The life of a worker, as the broker sees it::

                 READY                 dispatch
    unknown -------------> idle -----------------------> busy
       ^                    |  ^                          |
       |                    |  '--------- REPLY ----------'
       '-- expired, DISCONNECT, or a message that the state does not allow: told DISCONNECT, removed

The life of a request::

    received --> queued --> with a worker --> answered
       |            |             |
       |            |             '-- worker lost: queued again (idempotent service), else refused
       '------------'-- refused: expired, queue full, disabled, bad name

A refusal has a counted reason. The client is told only when it asked through ``mmi.call``; a plain client retries.

``wire`` holds the frames, ``broker`` the machine, ``mmi`` the broker's own services, ``server`` the socket, and
``program`` all of a process.
"""
