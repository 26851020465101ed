"""The client of a hub's HTTP API, for threads and for tasks.

::

    Hookwire, AsyncHookwire --> nouns, publishing, pulling     what is called: a request, and what its answer means
                                    |
                                exchange                        repeats, deadline, errors; no I/O
                                    |
                                transport                       httpx2

Each call is a generator of its steps. Both clients run the same generators, so a rule has one place. ``nouns`` and
:mod:`hookwire.models` are generated from ``openapi/openapi.json``.
"""
