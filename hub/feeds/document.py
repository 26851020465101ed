"""Document: the text of fetched content, and the encoding that it was read in (RFC 7303; WHATWG HTML, 13.2.3).

    byte order mark --none--> charset of the Content-Type --none--> declaration in the document --none--> UTF-8

No byte is lost: a byte that cannot be decoded is escaped, and `Document.encode` gives the same bytes back. The text for
expat has no XML declaration, since it is decoded, and no DOCTYPE. So no entity is ever declared, expanded or fetched.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

__all__ = ["LOOSE", "Document", "read_document"]

LOOSE = "\ufffd"

_MARKS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"<\x00", "utf-16-le"),
    (b"\x00<", "utf-16-be"),
)
_DECLARATION_BYTES = 1024
_DECLARED = re.compile(
    rb"<\?xml\s[^<>]*?\bencoding\s*=\s*[\"']([^\"'<>]*+)|<meta\s[^<>]*?\bcharset\s*=\s*[\"']?\s*([^\"'\s;/<>]++)",
    re.IGNORECASE,
)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]++)", re.IGNORECASE)

# Publishers mean the larger set, as browsers assume (WHATWG Encoding, 4.2).
_SUPERSETS = {
    "ascii": "utf-8",
    "utf-8-sig": "utf-8",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
# Encodings of names and of program texts, and those that make markup out of other characters.
_NO_DOCUMENTS = frozenset({"punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "utf-7", "hz"})
_WIDE = ("utf-16", "utf-32")

# Before Python 3.11.5 a possessive group with a lookahead matches nothing.
_COMMENT = r"<!--[^-]*+(?:-(?!->)[^-]*+)*-->"
_INSTRUCTION = r"<\?[^?]*+(?:\?(?!>)[^?]*+)*\?>"
_QUOTED = r"\"[^\"]*+\"|'[^']*+'"
_SUBSET = rf"\[(?:[^\]\"'<]++|{_QUOTED}|{_COMMENT}|{_INSTRUCTION}|<(?!!--|\?))*+\]"
_PROLOG = re.compile(
    rf"(?P<begin>[\s\ufeff\0]*+(?:<\?xml\s[^<>]*+>)?)(?:\s++|{_COMMENT}|{_INSTRUCTION})*+"
    rf"(?P<doctype><!DOCTYPE(?:[^\[<>\"']++|{_QUOTED})*+(?:{_SUBSET}\s*+)?>)?(?:\s++|{_COMMENT}|{_INSTRUCTION})*+",
    re.IGNORECASE,
)
_NO_XML = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_LOOSE_AMPERSAND = re.compile(
    r"(<!\[CDATA\[[^\]]*+(?:\](?!\]>)[^\]]*+)*)|&(?!(?:lt|gt|amp|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});)"
)
_NOT_A_LINE_FEED = re.compile(r"[^\n]")


@dataclass(frozen=True, slots=True)
class Document:
    """The text; ``codec`` decoded it; ``unknown`` is a declared encoding without a decoder."""

    text: str
    codec: str
    unknown: str | None = None

    def encode(self, text: str) -> bytes:
        """Return a part of the text in the encoding of the document."""
        try:
            return text.encode(self.codec, "surrogateescape")
        except UnicodeEncodeError:
            return text.encode(self.codec, "xmlcharrefreplace")

    def root(self) -> int:
        """Return the position of the first element, behind blanks, marks, declarations and comments."""
        prolog = _PROLOG.match(self.text)
        return prolog.end() if prolog else 0

    def xml(self) -> bytes:
        """Return UTF-8 for expat, character for character.

        A blank replaces a character that XML does not have. `LOOSE` replaces an ampersand that begins no reference of
        XML itself.
        """
        text = self.text
        prolog = _PROLOG.match(text)
        for part in ("begin", "doctype") if prolog else ():
            start, end = prolog.span(part)  # type: ignore[union-attr]
            if end > start:
                text = text[:start] + _NOT_A_LINE_FEED.sub(" ", text[start:end]) + text[end:]
        text = _LOOSE_AMPERSAND.sub(lambda found: found[1] or LOOSE, text)
        return _NO_XML.sub(" ", text).encode()


def read_document(content: bytes, content_type: str | None) -> Document:
    """Decode the content of an answer with this ``Content-Type``."""
    codec, unknown = _codec(content, content_type)
    try:
        text = content.decode(codec, "surrogateescape")
    except UnicodeDecodeError:  # a broken sequence of a wide encoding cannot be escaped
        text = content.decode(codec, "replace")
    return Document(text, codec, unknown)


def _codec(content: bytes, content_type: str | None) -> tuple[str, str | None]:
    for mark, codec in _MARKS:
        if content.startswith(mark):
            return codec, None
    named = _CHARSET.search(content_type or "")
    if named and (codec_named := _known(named[1])):
        return codec_named, None
    declared = _DECLARED.search(content[:_DECLARATION_BYTES])
    if declared is None:
        return "utf-8", None
    label = (declared[1] or declared[2] or b"").decode("latin-1")
    codec_declared = _known(label)
    return codec_declared or "utf-8", None if codec_declared else label


def _known(label: str) -> str | None:
    """Return Python's name of an encoding of documents, or None."""
    try:
        name = codecs.lookup(label.strip()).name
        "".encode(name)  # codecs of bytes, such as base64, are no encodings of text
    except (LookupError, ValueError):
        return None
    if name.startswith(_WIDE):  # a document whose declaration can be read as ASCII is not in a wide encoding
        return "utf-8"
    return None if name in _NO_DOCUMENTS else _SUPERSETS.get(name, name)
