"""The process of a command: settings, the event loop, signals, and what keeps its start short."""
