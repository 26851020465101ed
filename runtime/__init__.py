"""runtime keeps alive: the parts of a background service. This room imports no other room.

::

    process        one TaskGroup of named services; a soft stop in phases, then a hard stop
    wake           a flag that one service sets and another waits for
    pause          a wait that ends early when the service is to stop
    cancellation   keeps a request to end from being lost
    observable     tells listeners that something happened
    trouble        logs when a lasting failure begins and ends
    loop_lag       how late the event loop is
    sample         a share of the events, the same in each process
"""
