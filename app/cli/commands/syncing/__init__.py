"""The parts of ``hookwire sync``: the check of a wanted state, and the plan that leads to it."""
