"""Simple and Paranoid Pirate: a queue of stateless workers without services (ZeroMQ guide, chapter 4; 6/PPP).

Clients are Lazy Pirates: they repeat a request on a new socket. The queue gives each request to the worker that waits
longest::

                 READY              request               reply
    unknown ------------> ready -----------------> busy ---------> ready
       ^                    |                        |
       '--- no heartbeat ---'                        '--- busy too long --> unknown     (Paranoid only)

Simple Pirate has no heartbeats: a dead worker costs one client time-out, and a restarted queue knows no workers
(SP-07). Paranoid Pirate adds heartbeats in both directions. It has no version number and no type frame, which is why
Majordomo exists (PP-16).
"""
