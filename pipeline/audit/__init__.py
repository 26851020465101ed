"""The audit: proves that no accepted event is missing in the lake, or names the missing ones.

::

    ledger (owed) ----cells----.
                               +-- equal? --> done                      cheap: one pass over the lake
    bronze --lanes--> cells ---'    | no
                                    v
    accepted ids ------------> lost, phantom, altered                   id by id, unequal cells only
    bronze --suspects--------> duplicated, reordered, stale term        id by id, suspect lanes only

* ``seal``: a keyed hash over every column of a record, made by the archive and proved here.
* ``evidence``: a record of bronze as numbers.
* ``lane``: the records of one key in the order of their offsets, and the faults of that order.
* ``cell``: count, checksum, least and greatest id of one topic, hour and quarter of the ids, as in the ledger.
* ``verdict``: comparisons of cells and ids, and their findings.
* ``selftest``: plants each fault once.

All of them transform frames into frames; ``app`` reads the database and prints. One finding is one row: the fault, the
place, the count, and up to ``EXAMPLES_MAX`` ids.
"""
