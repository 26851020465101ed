"""app speaks: HTTP, commands, settings, wiring, process life. The only room that may import any other.

::

    cli --> serve --> wiring (builds) --> process (runs, stops in phases)
                        |
     server (wire) --> limits (of HTTP) --> web --+--> ingest      POST /topics/{topic}/events
                                                     +--> api/*       everything else

This room reads the settings and passes them on as frozen options. It writes problems, and wraps ports with fail points.
"""
