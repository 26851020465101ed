"""Checks: test the conditions of "nothing acknowledged is lost".

::

    settings --+                        +--> early, startup: refuse --> the service does not start
    database --+--> Check(level, cure) -+                    warn ----> it starts and logs it
    guard -----+                        +--> hookwire doctor: all of them as a table, and the brokers
    process ---+

``refuse`` is for findings that break the promise. Where only production suffers, the development profile warns instead:
the level comes from ``stricter_in_production``. The SC numbers are those of the requirements.
"""

from app.checks.check import Check, ChecksRefused, Level
from app.checks.kafka_sources import refuse_kafka_loops
from app.checks.startup import early_checks, startup_checks

__all__ = ["Check", "ChecksRefused", "Level", "early_checks", "refuse_kafka_loops", "startup_checks"]
