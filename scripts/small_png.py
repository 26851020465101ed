"""Small PNG: write a browser's picture anew with a palette of at most 256 colours, so that a repository can hold it.

It reads what a browser writes: 8 bits a channel, RGB or RGBA, not interlaced. Transparency is dropped.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter

__all__ = ["pixels_of", "small_png"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_ROUNDED = bytes(min(255, (value + 4) // 8 * 8) for value in range(256))
"""Each channel to 5 bits: antialiased text needs no more, and the colours become few."""
_COLOURS_MAX = 256
_RGB, _RGBA = 2, 6


def small_png(picture: bytes) -> bytes:
    """Return the picture with the palette of its commonest colours; ``ValueError`` for what is no such PNG."""
    width, height, pixels = pixels_of(picture)
    rounded = pixels.translate(_ROUNDED)
    colours = [rounded[at : at + 3] for at in range(0, len(rounded), 3)]
    common = [colour for colour, _ in Counter(colours).most_common()]
    palette = common[:_COLOURS_MAX]
    places = {colour: _nearest(colour, palette) if n >= _COLOURS_MAX else n for n, colour in enumerate(common)}
    line = bytes(places[colour] for colour in colours)
    rows = b"".join(b"\0" + line[row * width : (row + 1) * width] for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def pixels_of(picture: bytes) -> tuple[int, int, bytes]:
    """Return width, height and three bytes for each pixel."""
    if picture[:8] != _SIGNATURE:
        raise ValueError("this is no PNG")
    at, data, header = 8, b"", b""
    while at < len(picture):
        size, name = struct.unpack(">I4s", picture[at : at + 8])
        content = picture[at + 8 : at + 8 + size]
        header, data = (content if name == b"IHDR" else header), data + (content if name == b"IDAT" else b"")
        at += size + 12
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    if depth != 8 or kind not in (_RGB, _RGBA) or interlaced:
        raise ValueError("this PNG is not as a browser writes it")
    step = 3 if kind == _RGB else 4
    lines = _unfiltered(zlib.decompress(data), width * step, step)
    if step == 3:
        return width, height, bytes(lines)
    return width, height, b"".join(lines[at : at + 3] for at in range(0, len(lines), 4))


def _unfiltered(data: bytes, length: int, step: int) -> bytearray:
    """Undo the filter of each line (PNG, section 9)."""
    before, found = bytearray(length), bytearray()
    for start in range(0, len(data), length + 1):
        kind, line = data[start], bytearray(data[start + 1 : start + 1 + length])
        for at in range(length):
            left, corner = (line[at - step], before[at - step]) if at >= step else (0, 0)
            line[at] = (line[at] + _predicted(kind, left, before[at], corner)) & 0xFF
        found += line
        before = line
    return found


def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    if kind == 4:
        guess = left + above - corner
        return min((left, above, corner), key=lambda value: abs(guess - value))
    return (0, left, above, (left + above) // 2)[kind]


def _nearest(colour: bytes, palette: list[bytes]) -> int:
    return min(range(len(palette)), key=lambda n: sum((a - b) ** 2 for a, b in zip(colour, palette[n], strict=True)))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
