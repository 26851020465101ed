"""Holds of records that a destination refused, and their probes."""
