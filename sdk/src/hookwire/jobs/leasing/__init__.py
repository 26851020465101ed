"""The one loop of all workers that lease work: the source of the work, its settlement, and the loop itself."""
