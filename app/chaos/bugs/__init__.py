"""Bugs: how the product is broken from outside, and the seeded bugs of a failover."""
