"""Titanic: requests whose answers outlive caller, worker and broker (9/TSP).

::

    client                    Titanic                         broker, workers
    ------                    -------                         ---------------
    titanic.request  ---->    accept: durable, then 200, id
                              dispatcher: claim      ---->    call of the service
                              settle: first reply    <----    reply, or "the worker was lost"
    titanic.reply    ---->    fetch: 300, or 200 and the reply
    titanic.close    ---->    close: unknown from now on

* ``store`` is the port: the states of a request, what is durable and when, which reply wins.
* ``memory_store``, ``file_store`` and ``postgresql_store`` are its adapters; ``index`` is what the first two share.
* ``log_file`` is a file that survives a crash at any byte, ``record`` says what is in it, and ``group_commit`` lets
  callers share a sync.
* ``services`` answers the three services, ``dispatcher`` executes what was accepted; both know no sockets.
* ``caller`` is the port to the workers: ``thread`` implements it beside a broker of the same process, and
  ``examples/request-reply/titanic.py`` over any other broker.
"""
