"""Feeds and pages of other publishers, untrusted. ``document`` decodes, ``feed`` reads Atom and RSS and cuts entries
out, ``known`` remembers the distributed entries, and ``discovery`` finds the links that a topic advertises.
"""
