"""assembly builds the parts of the process from the settings: storage, sinks, sources, relays, jobs and services.

``app.wiring`` connects what is built here. Nothing here imports the web server or a command.
"""
