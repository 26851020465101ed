"""A large body is worked on in a thread, a small one on the event loop."""

from __future__ import annotations

import threading

import pytest

from runtime.large_body import HERE_BYTES_MAX, beside_loop_if_large


@pytest.mark.parametrize(("size_bytes", "is_here"), [(HERE_BYTES_MAX, True), (HERE_BYTES_MAX + 1, False)])
async def test_only_work_on_a_large_body_leaves_the_event_loop(size_bytes: int, is_here: bool) -> None:
    assert (await beside_loop_if_large(size_bytes, threading.current_thread) is threading.current_thread()) is is_here
