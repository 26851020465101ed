"""Benchmarks: ours and a yardstick in one run, ratios printed; never a timed test.

``make bench`` runs them all; ``python -m benchmarks publish`` one. Conditions and results: benchmarks/README.md.
"""
