"""cli speaks commands: ``main`` is the list of them, ``commands/`` has one per file.

Larger commands have a package: ``pipeline/``, ``consume/``, ``chat/``, ``monitor/``, ``goharvest/``. Commands share
``entry``, ``failure``, ``table`` and ``hub_client``.
"""
