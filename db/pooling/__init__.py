"""Pooling: the options of a pool, and the connections that are lent again at once."""
