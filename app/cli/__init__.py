"""cli speaks commands: ``main`` is the list of them, ``commands/`` has one per file.

Larger commands have a package: ``pipeline/``, ``consume/``, ``monitor/``, ``goharvest/``. Commands share ``entry``,
``failure``, ``table`` and ``hub_client``.
"""
