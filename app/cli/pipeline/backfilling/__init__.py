"""backfilling sends events of a lake to one subscription: what is chosen, who holds the run, what is sent, the audit.

::

               create              range done, and compared
    (dry run) -------> running ---------------------------> done
                        ^   |
      resume, by the    |   | pause, by anybody             cancel, from running or paused
      holder or a take  |   v a reason to stop             ------------------------------> cancelled
                        paused

The command reads the lake and sends, and the database has the state of the run. That is a row of ``hookwire.replays``,
so the API and the console show it, pause it and cancel it. The process holds the run under a lease. Another process
takes it only when the holder has given it back, or its lease is over. Each take raises the fence, and every write names
it.

A batch is noted when its events are sent, so a killed process repeats at most one batch. Events of a key are sent one
after the other, and a batch begins when the one before has ended. Nothing is written into ``events``, ``attempts`` or
``deliveries``: the ledger counts no backfill, and the lanes of live deliveries do not wait for it.
"""
