"""A database of the test's own on each PostgreSQL with sessions in it, and a whole hub."""

from tests.app.conftest import hub_of_file, kept_hub, running_hub
from tests.jobs.conftest import connect, other, sql

__all__ = ["connect", "hub_of_file", "kept_hub", "other", "running_hub", "sql"]
