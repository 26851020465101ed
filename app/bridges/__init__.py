"""bridges join rooms that do not know each other: each adapter fills a port of one room with the means of another.

Examples are the webhook fan-out as a sink of the relay, PostgreSQL's NOTIFY as a wake-up, and a user's program.
"""
