"""jobs does later: message queues, transactional tasks and jobs, in tables beside the data they belong to.

Layers on one lease core, each usable alone:

============  =====================================================  ==============================================
layer         concern                                                promise
============  =====================================================  ==============================================
message       delivery of opaque payloads to one or more consumers   knows nothing of the outcome of the work
task          work that exists if and only if a transaction          the row is the truth; a broker's message only
              committed                                              wakes a worker, and losing it is harmless
job           the state of a piece of work, done by a worker or a    tracks state, keeps history, commits the result
              person                                                 with its events and follow-up jobs
============  =====================================================  ==============================================

The lease core: a fence from one sequence stands in the row that it protects. The attempt is counted at the claim. One
statement settles by the fence and changes nothing that is stale. Finished and dead rows leave the table in that
statement, so that a claim reads one small index (docs/adr/0036-the-reaper-ends-leases.md).

A message (:mod:`jobs.queues`)::

                    receive (claim, lease)                 accept
    available ------------------------------> claimed -----------------> gone, or archived
        ^                                        |
        +------- reject (keeps its place) -------+
        +------- reaper: the lease is over ------+-----> dead letter (too many deliveries)

A task (:mod:`jobs.tasks`)::

    waiting --claim--> started --finish--> gone, or archived
      ^  ^                |  '--fail: retry after the backoff, or dead
      |  |                '--crash: retry | compensate | abandon, by the policy of its kind
      |  '----------------'
      '-- cleaner: notify again

A job (:mod:`jobs.job_queue`) has its diagram there. The *keeper* promotes, times out and ends jobs, and fires
schedules.

The duties. The *reaper* returns messages whose lease is over. The *cleaner* notifies of tasks that were overlooked and
recovers tasks whose worker has crashed. The *scaler* says how many workers there should be. :mod:`jobs.waiting` lets
any number of receivers wait with one question to the database.

Why in the database: the work is coupled to data, commits with it, and needs no second system. The rules are SQL
functions, so that any language can submit and work; the modules here call them. Broker clients belong to ``relay``; a
worker hears of tasks through the port :mod:`jobs.notification`.
"""
