"""Repair: compares a table's files with its log, and corrects differences that other readers would count.

`damage` names files that cannot be read or of which the log is wrong. `foreign_rows` names the rows that another tool
changed. `remnant` finds files that no commit lists. `renaming` gives old files a folder that every reader understands.
`words` has the log's statistics, and the rows that other readers count.
"""
