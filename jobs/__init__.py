"""jobs does work later: message queues, transactional tasks and jobs, in tables beside the data they belong to.

Three layers share one lease core; each can be used alone:

============  =====================================================  ==============================================
layer         concern                                                promise
============  =====================================================  ==============================================
message       delivery of opaque payloads to one or more consumers   does not know the outcome of the work
task          work that exists if and only if a transaction          the row decides; a broker's message only wakes
              committed                                              a worker, and losing it is harmless
job           the state of a piece of work, done by a worker or a    tracks state, keeps history, commits the result
              person                                                 with its events and follow-up jobs
============  =====================================================  ==============================================

The lease core: each claim stores a new fence, a number from one sequence, in its row. The claim counts the attempt. One
statement settles rows whose fence still matches and skips stale ones. The same statement removes finished and dead
rows, so that a claim reads one small index (docs/adr/0036-the-reaper-ends-leases.md).

A message (:mod:`jobs.queues.queues`)::

                    receive (claim, lease)                 accept
    available ------------------------------> claimed -----------------> gone, or archived
        ^                                        |
        +------- reject (keeps its place) -------+
        +------- reaper: the lease is over ------+-----> dead letter (too many deliveries)

A task (:mod:`jobs.tasks.tasks`)::

    waiting --claim--> started --finish--> gone, or archived
      ^  ^                |  '--fail: retry after the backoff, or dead
      |  |                '--crash: retry | compensate | abandon, by the policy of its kind
      |  '----------------'
      '-- cleaner: notify again

The diagram of a job stands in :mod:`jobs.jobs.job_queue`.

Background services keep the states true. The *maintainer* promotes, times out and ends jobs, and fires schedules. The
*reaper* returns messages whose lease is over. The *cleaner* notifies workers again of tasks that none has claimed, and
recovers tasks whose worker has crashed. The *scaler* computes how many workers should run.
:mod:`jobs.queues.waiting` lets any number of receivers share one query of the database.

Why in the database: the work belongs to data, commits with it, and needs no second system. The rules are SQL functions,
so that any language can submit and work; the modules here call them. The SDK has the workers (``hookwire.jobs``).
"""
