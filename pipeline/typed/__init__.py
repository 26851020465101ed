"""typed: schemas of JSON in the lake: how they drift by day, and a proposal for a topic's schema in the hub."""
