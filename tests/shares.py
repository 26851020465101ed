"""What of the suite goes to one process, and how long each such share took."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter

import pytest

_SHOWN_SECONDS_MIN = 10.0


def share(nodeid: str) -> str:
    """Return a test's share: its file; or a half of the pipeline's files, which then make one Spark session."""
    file = nodeid.partition("::")[0]
    if file.startswith("tests/pipeline/test_a"):
        return "tests/pipeline/test_a*"
    return "tests/pipeline" if file.startswith("tests/pipeline/") else file


def longest(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """Yield a line for each share that took ten seconds or more, the longest first."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        seconds[share(report.nodeid)] += report.duration
    for name, total in sorted(seconds.items(), key=itemgetter(1), reverse=True):
        if total >= _SHOWN_SECONDS_MIN:
            yield f"{total:6.0f} s  {name}"
