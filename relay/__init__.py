"""relay carries: from the outbox to Kafka, to AMQP and into the fan-out, in order per key, fenced.

The walk of a record
--------------------

::

    outbox row --claim--> in flight --send--> acknowledged --purge--> gone
        ^                     |  |
        |  term or producer  |  +--> refused --> held (its key, or its whole topic, waits)
        +---- ended ----------+                     |
                                                    +--probe--> drained in order --> gone

No mark is stored, while goharvest marks each row. One fenced owner per (sink, partition group) reads the lowest ids of
its shards. It sends them and deletes confirmed records, a batch at a time. The next term sends records again, in order,
that were sent but not deleted when a term ended. So per key the first occurrences rise without gap. A repeat is one
contiguous re-run of an unacknowledged batch (RR-01).

Leaders
-------

Election only detects (:mod:`relay.election.lease`). A fence makes a paused leader harmless when it wakes:

* in PostgreSQL every deciding write names its term and takes FOR KEY SHARE on the term's row (RR-08);
* in Kafka the transactional id grants an epoch, and an older one is refused (:mod:`relay.kafka.sink`);
* in AMQP an exclusive lock queue lives and dies with the publishing connection (:mod:`relay.amqp.sink`).

Each sink has its own lease, so that a broker that is down stops no other sink (RR-09). Ancestors: goharvest and goneli
by obsidiandynamics; their verbs (stash, mark, purge, reset) and words (harvester, leader, fence) are kept.
"""
