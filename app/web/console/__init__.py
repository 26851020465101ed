"""The console: pages for people, made by the server, below ``/console``.

::

    browser --cookie or Basic--> Authentication --> route --> InnerApi --> route of the API --> JSON --> page
                                                      |
    form: own origin, own session's token ------------'--> an act: the same request of the API, with its audit entry

A page is readable without scripts, and its address is its state. Its forms stand for requests of the API, and show the
request and the command that do the same.
"""
