"""assembly builds the parts of the process from the settings: storage, sinks, sources, relays, jobs and services.

``app.wiring`` connects these parts. Nothing here imports it, or a command.
"""
