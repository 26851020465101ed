"""How many examples Hypothesis tries for one property.

`make unit` sets TEST_EXAMPLES_SHARE to a fifth, so that it answers quickly. Every other run tries all.
"""

import os

from hypothesis import settings

_SHARE = float(os.environ.get("TEST_EXAMPLES_SHARE", "1"))
_DEFAULT = 100


def examples(number: int = _DEFAULT) -> int:
    """Return how many examples a property with so many is tried with in this run."""
    return max(1, round(number * _SHARE))


def load_profile() -> None:
    """Let an example take any time, because no test depends on speed."""
    settings.register_profile("patient", deadline=None, max_examples=examples())
    settings.load_profile("patient")
