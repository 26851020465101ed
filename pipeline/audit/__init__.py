"""The audit: proves that nothing of what was accepted is missing in the lake, or names what is (PL-A01..A12).

::

    ledger (owed) ----cells----.
                               +-- equal? --> done                      cheap: one pass over the lake
    bronze --lanes--> cells ---'    | no
                                    v
    accepted ids ------------> lost, phantom, altered                   id by id, unequal cells only
    bronze --suspects--------> duplicated, reordered, stale term        id by id, suspect lanes only

* ``evidence``: a record of bronze as numbers.
* ``lane``: the records of one key in the order of their offsets, and what is wrong with that order.
* ``cell``: count, checksum, least and greatest id of one topic, hour and quarter of the ids, as the ledger has them.
* ``verdict``: cells compared, ids compared, findings.
* ``selftest``: plants one of each finding.

All of them are transforms from frames to frames; ``app`` reads the database and prints. One finding is one row:
what, where, how many, and up to ``EXAMPLES_MAX`` of their ids.
"""
