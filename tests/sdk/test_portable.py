"""The SDK runs on macOS: neither it nor its tests without servers name what Linux alone has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINUX = re.compile(
    r"\b(?:pidfd_open|eventfd|memfd_create|sched_[gs]etaffinity|prctl|sigtimedwait|sigwaitinfo|epoll|pipe2|accept4"
    r"|posix_fallocate|O_TMPFILE|SO_PEERCRED|TCP_USER_TIMEOUT|CLOCK_BOOTTIME)\b|[\"'](?:/proc/|/sys/)|bind\([\"']\\0"
)


@pytest.mark.parametrize("folder", ["sdk/src", "tests/sdk"])
def test_no_file_names_a_call_that_linux_alone_has(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    found = {path.name: LINUX.findall(path.read_text("utf-8")) for path in files}
    assert ({name: calls for name, calls in found.items() if calls}, len(files) > 20) == ({}, True)


@pytest.mark.parametrize("text", ["os.pidfd_open(1)", "select.epoll()", 'open("/proc/self/status")', 'bind("\\0name")'])
def test_such_a_call_is_found(text: str) -> None:
    assert LINUX.search(text)
