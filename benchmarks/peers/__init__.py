"""Hookwire beside other products, on one machine, by one load tool; and beside a null hub."""
