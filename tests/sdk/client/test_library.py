"""Which HTTP library carries the client: httpx2 as shipped, httpx where a program has only that."""

from __future__ import annotations

import sys

import pytest

from hookwire.client.transport import installed_library


@pytest.mark.parametrize(("absent", "name"), [((), "httpx2"), (("httpx2",), "httpx")], ids=["both", "httpx alone"])
def test_httpx2_is_used_where_it_is_installed(
    absent: tuple[str, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FD-08: the client of this environment's tests is httpx2."""
    for library in absent:
        monkeypatch.setitem(sys.modules, library, None)

    assert installed_library().__name__ == name


def test_without_a_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("httpx2", "httpx"):
        monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(ImportError, match=r"pip install 'hookwire\[http\]'"):
        installed_library()
