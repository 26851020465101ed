"""Incidents: failures of deliveries, grouped by their cause.

::

    failed attempt --> fingerprint (class, status, reduced answer) --> incident: known here, or noted in the database
                                                                          |
    open <-- failures after its end --- resolved                          '--> column of delivery and dead letter
      |  '-- acknowledged, ignored: by a person

A success has no fingerprint and costs nothing. A subscription has at most 50 open incidents with a fingerprint of their
own; the failures beyond are in one more, of the kind ``other``.
"""
