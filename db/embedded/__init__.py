"""The embedded PostgreSQL: its programs, cluster, locks and life cycle (RR-14). Begin with ``server``."""
