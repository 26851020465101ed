"""The Delta protocol: a table's log, its snapshots, the features that it may use, and commits of other tools.

::

    log --entries--> snapshot --files and partition values--> reading --> rows
     |                  |
     |                  '-- statistics: the log's words on the values of each file
     '-- foreign: commits of other tools        protocol: refuses features that are unknown

Partition values, paths and statistics come from the log, never from the names of folders. `pipeline.lake` writes tables
by these parts.
"""
