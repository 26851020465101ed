"""Kafka source: records of a Kafka topic become events, each exactly once, in the order of their partition.

::

    assigned --> offset from the database --> seek --> fetch --> read --> intake: COMMIT of events and offset --+
       ^              ^                                 ^                     |                                 |
       |              |  outcome unknown, or another    +---------------------|---- next records <--------------+
       |              |  process was faster             +---- a busy key: the rest again <---- a prefix was taken
       +--------------+---------------------------------+
    revoked: the records in hand are finished, then the partition is another process's

The consumer group only spreads the partitions over the processes. The offset in the database decides where a partition
goes on. The group's offset is written every few seconds for tools that show the lag, and is never read. So a process
that was stopped and wakes up takes nothing twice: its offset is no longer the one in the database.
"""
