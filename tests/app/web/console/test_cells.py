"""app/web/console/cells.py: the beginning of a large content, and no more of it than is shown."""

from __future__ import annotations

import html
import json
import tracemalloc
from typing import Any

import pytest

from app.web.console.cells import value_cell


@pytest.mark.parametrize(
    "value", [{"a": [1, {"b": "é<"}]}, [1.5, None, True], "text", 7], ids=["object", "list", "text", "number"]
)
def test_contents_are_shown_as_indented_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    assert value_cell("args", value) == f'<pre tabindex="0">{html.escape(text)}</pre>'


@pytest.mark.parametrize("value", [[1] * 300_000, {str(n): [n] for n in range(60_000)}], ids=["list", "object"])
def test_only_the_part_of_a_content_that_is_shown_is_encoded(value: Any) -> None:
    """The standard library indents in Python, so a megabyte would hold the event loop."""
    text = json.dumps(value, ensure_ascii=False, indent=1)
    tracemalloc.start()
    try:
        cell = value_cell("result", value)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert cell == f'<pre tabindex="0">{html.escape(text[:4_000])}\n<span class="soft">… and more</span></pre>'
    assert peak < 1_000_000, f"{peak:,} bytes of memory for a cell"
