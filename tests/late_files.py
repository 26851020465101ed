"""Files that are collected late: each by the one process of several that runs it, when its turn comes.

xdist lets each process collect all files, which needs 40 s of processor time. With `--dist loadfile` a process collects
one item for each file instead, without importing the file. This item collects the tests of its file and runs them.
"""

import gc
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import pytest
from _pytest.nodes import Node
from typing_extensions import override


def collects_late(config: pytest.Config) -> bool:
    """Return whether the processes of this run collect late: only if whole files are chosen."""
    if config.getoption("dist", "no") != "loadfile" or config.option.keyword:
        return False
    return not any("::" in argument for argument in config.args)


class LateFile(pytest.File):
    """A test file that is not imported yet."""

    @override
    def collect(self) -> Iterator[pytest.Item]:
        yield WholeFile.from_parent(self, name="whole file")


class WholeFile(pytest.Item):
    """All tests of a file, before they are known. Its own marks let each choice of ours reach the tests."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.add_marker("unit")
        self.add_marker(pytest.mark.timeout(0))  # each of the tests has one

    @override
    def listchain(self) -> list[Node]:
        """Return the session alone, so that all else ends before this file: it may hold no test that is chosen."""
        return [self.session]

    @override
    def runtest(self) -> None:
        raise NotImplementedError("its tests run one by one")

    def run_tests(self, nextitem: pytest.Item | None) -> None:
        """Collect the tests and run them; ``nextitem`` follows the last of them.

        xdist takes a report only if it is of the item at this place of the session.
        """
        place = self.session.items.index(self)
        tests = self._collected()
        for test, following in zip_longest(tests, tests[1:], fillvalue=nextitem):
            self.session.items[place] = test
            self.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if self.session.shouldfail or self.session.shouldstop:
                break

    def _collected(self) -> list[pytest.Item]:
        """Return the tests that the command line chooses. What is made here lives on, so no cycles are looked for."""
        assert isinstance(self.parent, LateFile)
        assert isinstance(self.parent.parent, pytest.Collector)
        gc.disable()
        try:
            module = pytest.Module.from_parent(self.parent.parent, path=self.path)
            tests = list(self.session.genitems(module))
            self.config.hook.pytest_collection_modifyitems(session=self.session, config=self.config, items=tests)
        finally:
            gc.enable()
        return tests
