"""Topic names, ordering keys, and the patterns by which subscriptions choose topics.

A name is 1-249 characters of ``A-Z a-z 0-9 . _ -`` in dot-separated words, none of them empty; so ``.`` and ``..``,
which Kafka refuses, are invalid. In a pattern the word ``*`` stands for exactly one word. The word ``#`` stands for any
number of words, also none, as in an AMQP topic exchange, for example ``a.#`` matches ``a``. A wildcard in the first
place never matches ``hookwire``. Only patterns that begin with that word choose the hub's own topics.

A pattern is stored in its canonical form. Adjacent wildcards with a ``#`` among them match at least as many words as
they have stars, in any order. They are written as the stars and then one ``#``: ``#.*.#`` becomes ``*.#``.

The compiled form is one regular expression that Python's ``re`` and PostgreSQL's ARE read alike (``\\A``, ``\\Z`` and
``(?:`` mean the same in both). ``re`` backtracks, and k times ``#`` over n words may cost n**k steps. The limits of 3
``#`` and of 8 wildcards keep the worst case in milliseconds.
"""

import hashlib
import re
import unicodedata
from itertools import groupby

TOPIC_LENGTH_MAX = 249
KEY_BYTES_MAX = 1024
WILDCARDS_MAX = 8
MULTI_WILDCARDS_MAX = 3
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_WILDCARDS = ("*", "#")
_NOT_RESERVED = r"(?!hookwire(?:\.|\Z))"


class TopicError(ValueError):
    """An illegal topic name, key or pattern; the text says why and may be shown to the caller."""


def validate_topic(name: str) -> str:
    """Return the name, or raise TopicError."""
    _check_length(name)
    if not all(_WORD.fullmatch(word) for word in name.split(".")):
        raise TopicError("a topic is dot-separated words of A-Z a-z 0-9 _ -, none of them empty")
    return name


def is_reserved(name: str) -> bool:
    """Return whether only the hub itself publishes to this topic: ``hookwire`` and ``hookwire.*``."""
    return name == "hookwire" or name.startswith("hookwire.")


def validate_key(key: str) -> str:
    """Return the ordering key, or raise TopicError: 1..1,024 bytes of UTF-8 without control characters.

    A key is compared byte for byte and never normalised: the SQL function must see the same key.
    """
    if not key:
        raise TopicError("a key is not empty; leave it out for an event without order")
    try:
        size_bytes = len(key.encode())
    except UnicodeEncodeError as error:
        raise TopicError("a key is valid Unicode text") from error
    if size_bytes > KEY_BYTES_MAX:
        raise TopicError(f"a key has at most {KEY_BYTES_MAX} bytes in UTF-8")
    is_plain = key.isascii() and key.isprintable()
    if not is_plain and any(unicodedata.category(character) == "Cc" for character in key):
        raise TopicError("a key holds no control characters")
    return key


def key_or_digest(text: str, raw: bytes | None = None) -> str:
    """Return the ordering key of a text that another program sent: the text, or ``sha256-`` and a hash if it is no key.

    The hash is that of ``raw``, the key as it came, or of the text in UTF-8. Equal texts have equal keys, so
    their order stays.
    """
    try:
        return validate_key(text)
    except TopicError:
        raw = text.encode(errors="surrogatepass") if raw is None else raw
        return f"sha256-{hashlib.sha256(raw).hexdigest()}"


def validate_pattern(pattern: str) -> str:
    """Return the pattern in its canonical form (a plain topic name is one too), or raise TopicError."""
    _check_length(pattern)
    words = pattern.split(".")
    if not all(word in ("*", "#") or _WORD.fullmatch(word) for word in words):
        raise TopicError("a pattern is dot-separated words of A-Z a-z 0-9 _ -, or * for one word, or # for any number")
    words = _canonical(words)
    if sum(word in ("*", "#") for word in words) > WILDCARDS_MAX:
        raise TopicError(f"a pattern has at most {WILDCARDS_MAX} wildcards")
    if words.count("#") > MULTI_WILDCARDS_MAX:
        raise TopicError(f"a pattern has at most {MULTI_WILDCARDS_MAX} separate #")
    return ".".join(words)


def compile_pattern(pattern: str) -> str | None:
    """Translate a pattern for ``re`` and for PostgreSQL's ``~``; None when it is an exact name.

    The result is anchored at both ends. For every legal topic name it agrees with ``matches``.
    """
    words = validate_pattern(pattern).split(".")
    if "*" not in words and "#" not in words:
        return None
    beginning = r"\A" + (_NOT_RESERVED if words[0] in _WILDCARDS else "")
    if words == ["#"]:
        return rf"{beginning}.+\Z"
    expression = ""
    for position, word in enumerate(words):
        if word == "#":
            expression += r"(?:\.[^.]+)*" if position else r"(?:[^.]+\.)*"
            continue
        after_leading_multi = position == 1 and words[0] == "#"  # the expression of a leading ``#`` ends in the dot
        separator = "" if position == 0 or after_leading_multi else r"\."
        expression += separator + ("[^.]+" if word == "*" else word)
    return rf"{beginning}{expression}\Z"


def matches(pattern: str, topic: str) -> bool:
    """Return whether the pattern chooses the topic, without a regular expression: the reference for `compile_pattern`.

    Cost: words of the pattern x words of the topic. Both must be legal.
    """
    return covers(pattern, topic)


def covers(outer: str, inner: str) -> bool:
    """Return whether the outer pattern chooses every topic that the inner one chooses; a name is a pattern, too.

    A wildcard of the inner pattern is matched only by an equal or a wider wildcard. So True is always right, and False
    may be wrong. Cost: words of one pattern x words of the other.
    """
    words = inner.split(".")
    if words[0] == "hookwire" and outer.partition(".")[0] in _WILDCARDS:
        return False
    # reachable[i]: the outer pattern's words so far can match exactly the first i words of the inner one
    reachable = [True] + [False] * len(words)
    for part in outer.split("."):
        if part == "#":
            first = reachable.index(True) if True in reachable else len(reachable)
            reachable = [index >= first for index in range(len(reachable))]
        else:
            steps = (
                reached and word != "#" and part in ("*", word) for reached, word in zip(reachable, words, strict=False)
            )
            reachable = [False, *steps]
    return reachable[-1]


def _check_length(name: str) -> None:
    if not 1 <= len(name) <= TOPIC_LENGTH_MAX:
        raise TopicError(f"a topic has 1 to {TOPIC_LENGTH_MAX} characters")


def _canonical(words: list[str]) -> list[str]:
    result: list[str] = []
    for is_wildcard, group in groupby(words, key=lambda word: word in ("*", "#")):
        run = list(group)
        result += [*(word for word in run if word == "*"), *["#"][: "#" in run]] if is_wildcard else run
    return result
