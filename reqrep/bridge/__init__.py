"""The bridge: services over HTTP, SQL and ZeroMQ, with the requests in the database (ZU-01 to ZU-14).

A request is a row. Any of the three makes it, works on it and fetches its reply::

    HTTP, SQL, titanic.request --make--> waiting --claim--> leased --reply--> answered --close--> archive
                                            ^                 |
                                            '-- lease over, --'
                                                or a callback failed

The rules are SQL functions, so that any language can be a caller or a worker, in its own transaction. The modules here
call them for the hub:

* :mod:`reqrep.bridge.requests`: make, claim, reply, fetch, close.
* :mod:`reqrep.bridge.waiting`: workers that wait for requests, and callers that wait for replies.
* :mod:`reqrep.bridge.reaper`: ends what is over: leases, expiries, retention.
* :mod:`reqrep.bridge.callbacks`: workers behind a callback, which get each request as a POST.

The store of Titanic in PostgreSQL (:mod:`reqrep.titanic.postgresql_store`) works on the same rows.
"""
