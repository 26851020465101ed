"""app speaks: HTTP, commands, settings, wiring, process life. The only room that may import any other.

::

    cli --> serve --> wiring (builds) --> process (runs, stops in phases)
                        |
     server (wire) --> limits (front door) --> web --+--> ingest      POST /topics/{topic}/events
                                                     +--> api/*       everything else

What is easily misplaced lives here on purpose: settings are read here and handed on as frozen options; problems are
written here; fail points are wrappers that are put round ports here.
"""
