"""The parts of ``hookwire sync``: the plan, and the check of what is wanted."""
