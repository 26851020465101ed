"""relay carries: from the outbox to Kafka, to AMQP and into the fan-out, in order per key, fenced.

The walk of a record
--------------------

::

    outbox row --claim--> in flight --send--> acknowledged --purge--> gone
        ^                     |  |
        |  term or producer  |  +--> refused --> held (its key, or its whole topic, waits)
        +---- ended ----------+                     |
                                                    +--probe--> drained in order --> gone

No mark is stored (goharvest marks each row): one fenced owner per (sink, partition group) reads the lowest ids of
its shards, sends them and deletes what the broker has confirmed, a batch at a time. Whatever was sent but not
deleted when a term ends is sent again by the next one, in order. So per key the first occurrences rise without
gap, and a repeat is one contiguous re-run of an unacknowledged batch (RR-01).

Who leads
---------

Election only detects (:mod:`relay.election.lease`); being refused is what makes a paused leader harmless when it wakes:

* in PostgreSQL every deciding write names its term and takes FOR KEY SHARE on the term's row (RR-08);
* in Kafka the transactional id grants an epoch, and an older one is refused (:mod:`relay.kafka.sink`);
* in AMQP an exclusive lock queue lives and dies with the publishing connection (:mod:`relay.amqp.sink`).

Each sink has its own lease, so that one broker that is down stops nobody else (RR-09). Ancestors: goharvest and
goneli by obsidiandynamics; their verbs (stash, mark, purge, reset) and words (harvester, leader, fence) are kept.
"""
