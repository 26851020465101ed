"""A ledger that keeps its hours for ever, for tests of a fixed day. Otherwise it drops an hour after 400 days."""

KEEP_FOR_EVER = """
CREATE OR REPLACE FUNCTION hookwire.ledger_kept() RETURNS interval LANGUAGE sql IMMUTABLE RETURN '1000 years'::interval
"""
