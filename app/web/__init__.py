"""web speaks HTTP: the server, the limits of a connection and a request, authentication, publishing, the API, pages.

::

    server -> protocol -> connections          the wire: framing, deadlines
                  |
               limits                          request id, load shedding, body size, last resort
                  |
            authentication                     which key, and what it may do
                  |
             application --+-> publishing/     POST /topics/{topic}/events
                           +-> api/            every other route, one noun per file; shared parts in route/
                           +-> console/        pages for people
                           '-> pages/          problem pages

Every refusal is a problem (RFC 9457): ``problem_kinds`` is the table, ``problem`` the shape.
"""
