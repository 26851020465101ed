"""The tests. Some packages that they need install a `tests` of their own, to which a folder without this file loses."""
