"""Titanic: stored requests that survive the end of the caller, the worker and the broker (9/TSP).

::

    client                    Titanic                         broker, workers
    ------                    -------                         ---------------
    titanic.request  ---->    accept: durable, then 200, id
                              dispatcher: claim      ---->    call of the service
                              settle: first reply    <----    reply, or "the worker was lost"
    titanic.reply    ---->    fetch: 300, or 200 and the reply
    titanic.close    ---->    close: unknown from now on

* ``store`` is the port for stores: the states of a request, the durability rules, and which reply wins.
* ``memory_store``, ``file_store`` and ``postgresql_store`` are its adapters. The first two share ``index``.
* ``log_file`` is an append-only file that survives a crash at any byte. ``record`` defines the file's records, and
  ``group_commit`` lets concurrent calls share a sync.
* ``services`` answers the three services of 9/TSP, and ``dispatcher`` executes accepted requests. Neither uses sockets.
* ``caller`` is the port to the workers. ``thread`` implements it beside a broker in the same process;
  ``examples/request-reply/titanic.py`` implements it over any other broker.
"""
