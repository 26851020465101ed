"""app speaks: HTTP, commands, settings, wiring, process life. The only room that may import any other.

::

    cli -> chaos -> embed, serve -> checks, wiring -> assembly -> bridges -> web, maintenance -> settings

    wiring connects; process (of runtime) runs it, and stops it in phases
    assembly       builds the parts from the settings: storage, sinks, sources, relays, jobs, services
    bridges        join rooms that do not know each other: the fan-out as a sink, NOTIFY, a user's program
    web            publishing: POST /topics/{topic}/events; api/*: everything else

This room reads the settings and passes them on as frozen options. It writes problems, and wraps ports with fail points.
"""
