"""Simple and Paranoid Pirate: a queue between clients and workers, without services (ZeroMQ guide, chapter 4; 6/PPP).

Clients follow the Lazy Pirate pattern: they repeat a request on a new socket. The queue sends each request to the
worker that has waited longest::

                 READY              request               reply
    unknown ------------> ready -----------------> busy ---------> ready
       ^                    |                        |
       '--- no heartbeat ---'                        '--- busy too long --> unknown     (Paranoid only)

Simple Pirate has no heartbeats: a dead worker costs a client one timeout, and a restarted queue knows no workers
(SP-07). Paranoid Pirate adds heartbeats in both directions. It lacks a version number and a type frame, which Majordomo
adds (PP-16).
"""
