"""Checks: what must hold for "nothing acknowledged is lost" to be true, asked instead of assumed (hardening.md, 9).

::

    settings --+                        +--> early, startup: refuse --> the service does not start
    database --+--> Check(level, cure) -+                    warn ----> it starts and says so
    guard -----+                        +--> hookwire doctor: all of them as a table, and the brokers
    process ---+

``refuse`` is for what breaks the promise. Where only production is hurt, the development profile warns instead: the
level comes from ``stricter_in_production``. The SC numbers are those of the requirements.
"""

from app.checks.check import Check, ChecksRefused, Level
from app.checks.startup import early_checks, startup_checks

__all__ = ["Check", "ChecksRefused", "Level", "early_checks", "startup_checks"]
