"""The embedded PostgreSQL: its programs, its cluster, its locks and its life cycle (RR-14). ``server`` is the entry."""
