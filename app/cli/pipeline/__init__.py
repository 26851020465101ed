"""The command ``hookwire pipeline``: one verb per file. Spark itself is known to ``pipeline`` only."""
