"""Titanic: requests whose answers outlive caller, worker and broker (9/TSP).

``store`` is the port: what is durable, and when. ``memory_store`` and ``file_store`` are adapters without a database;
``index`` is what both share.
"""
