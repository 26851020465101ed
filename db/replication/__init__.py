"""Replication: the primary that sessions follow, and the fence that waits for its standbys."""
