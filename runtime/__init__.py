"""runtime keeps alive: what a background service of the process is made of. Imports nothing of ours.

::

    process        one TaskGroup of named services; a soft stop in phases, then a hard stop
    wake           a flag that one service sets and another waits for
    pause          a wait that ends early when the service is to stop
    cancellation   ends that must not be lost while they are shielded
    loop_lag       how late the event loop is
    sample         a share of the events, the same in each process
"""
