"""The bridge: requests to services in the database, for callers and workers over HTTP, SQL and ZeroMQ.

A request is a row. Each protocol can make a request, execute it and fetch its reply::

    HTTP, SQL, titanic.request --make--> waiting --claim--> leased --reply--> answered --close--> archive
                                            ^                 |
                                            '-- lease over, --'
                                                or a callback failed

The rules are SQL functions, so that any language can be a caller or a worker, in its own transaction. These modules
call the functions for the hub:

* :mod:`reqrep.bridge.requests`: make, claim, reply, fetch, close.
* :mod:`reqrep.bridge.waiting`: workers that wait for requests, and callers that wait for replies.
* :mod:`reqrep.bridge.waiting_worker`: a worker that is handed a request, which is leased to it from the start.
* :mod:`reqrep.bridge.reaper`: ends expired leases, expires requests and deletes old records.
* :mod:`reqrep.bridge.callbacks`: workers behind a callback URL, which get each request as a POST.

Titanic's PostgreSQL store (:mod:`reqrep.titanic.postgresql_store`) uses the same rows.
"""
