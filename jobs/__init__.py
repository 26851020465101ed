"""jobs does later: message queues, transactional tasks and jobs, in tables beside the data they belong to.

Three layers on one lease core, each usable alone:

============  =====================================================  ==============================================
layer         concern                                                promise
============  =====================================================  ==============================================
message       delivery of opaque payloads to one or more consumers   knows nothing of the outcome of the work
task          work that exists if and only if a transaction          the row is the truth; a broker's message only
              committed                                              wakes a worker, and losing it is harmless
job           the eventual state of a piece of work, done by a       tracks states, tells the submitter, keeps history
              machine or a person
============  =====================================================  ==============================================

A message::

                    receive (claim id, lease)              accept
    available ------------------------------> claimed -----------------> gone, or archived
        ^                                        |
        +------- reject (keeps its place) -------+
        +------- reaper: the lease ran out ------+-----> dead letter (too many deliveries)

A job::

    scheduled --> available --> running --> completed
        ^          |    ^         |  |----> discarded
        |          |    |         |  '----> retryable --> available (when due)
        |          |    '- reaper-'-------> review ----> completed | available | discarded
        |          v
        '------ assigned (to a person or a group): the same ends, without a lease

    any state that is not an end --> cancelled

Any other move is refused in the statement itself (``WHERE state IN ...``), not only in Python.

The duties. The *reaper* returns what a dead worker held; the *cleaner* keeps the hot tables small; the *archive* holds
what ended, where no receiver ever scans it; the *scheduler* promotes what is due. Claims carry a lease and a fencing
token, like deliveries: a worker that was stopped and wakes up settles under an old token, which changes nothing.

Why in the database: the work is coupled to data, commits with it, and needs no second system. A claim is one statement
that skips locked rows; two receivers never get the same row.

The ancestors' words are kept: accept and reject (AMQP), move and copy (competing and non-competing consumption),
worker and job (Gearman), unique, snooze and discard (River, Oban).

Not built yet. This docstring is the plan.
"""
