"""Intake: what a source reads becomes events; the hub's side of :mod:`relay.source`.

::

    AMQP source  --one message---> messages --> publisher: a commit that is shared --> acknowledged
    Kafka source --many records--> records ---> one transaction: events, refusals, the partition's offset

A message of AMQP has an identity of its own, so that a repeat is found. A record of Kafka has its offset, which moves
in the transaction that stores the record. So there is no repeat to find.
"""
