"""A queue in MariaDB or MySQL: one table, the SQL of its verbs, and how they run on a connection.

::

    available (claim NULL) --receive--> claimed (claim = the mark) --accept--> gone, or in the archive table
        ^  ^                                |  |
        |  '---- lease ends, reject --------'  '-- reject, lease of the last delivery ends --> dead (claim = 1)
        '------- due -- delayed (claim = 0) <-'-- reject with a delay

A receiver reads the lowest available ids, marks these rows where nobody has marked them meanwhile, and reads the rows
with its mark. So no receiver waits for a submitter that has not committed.
"""
