"""The pictures of the docs are written with a palette: `make pictures`, FT-01."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from scripts.small_png import _chunk, pixels_of, small_png

PICTURE = Path(__file__).parents[2] / "docs/pictures/status-open-390.png"


def png(width: int, rows: list[tuple[int, bytes]], kind: int) -> bytes:
    """A PNG of these filtered lines; kind 2 is RGB, 6 RGBA."""
    header = struct.pack(">IIBBBBB", width, len(rows), 8, kind, 0, 0, 0)
    data = zlib.compress(b"".join(bytes([filtered]) + line for filtered, line in rows))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def test_each_filter_of_a_line_is_undone() -> None:
    """Five lines of two equal pixels, each written by another filter."""
    rows = [
        (0, b"\x10\x20\x30\x10\x20\x30"), (1, b"\x10\x20\x30\0\0\0"), (2, b"\0\0\0\0\0\0"),
        (3, b"\x08\x10\x18\0\0\0"), (4, b"\0\0\0\0\0\0"),
    ]  # fmt: skip
    assert pixels_of(png(2, rows, 2)) == (2, 5, b"\x10\x20\x30" * 10)


def test_a_picture_keeps_its_size_and_its_commonest_colours() -> None:
    """Transparency is dropped, and each channel has 5 bits."""
    small = small_png(png(2, [(0, b"\x10\x20\x31\xff\xf8\x00\x07\xff")], 6))

    assert small[16:26] == struct.pack(">IIBB", 2, 1, 8, 3)
    assert b"\x10\x20\x30" in small
    assert b"\xf8\x00\x08" in small


@pytest.mark.parametrize("given", [b"GIF89a", png(1, [(0, b"\0")], 0)], ids=["no PNG", "grey"])
def test_what_a_browser_does_not_write_is_refused(given: bytes) -> None:
    with pytest.raises(ValueError, match="PNG"):
        small_png(given)


def test_the_pictures_of_the_docs_have_a_palette() -> None:
    """FT-01: colour type 3."""
    assert PICTURE.read_bytes()[25] == 3
