"""What is wrong with the value of a setting, in plain words."""

from __future__ import annotations

from typing import Final

__all__ = ["words_of"]

_KINDS: Final = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid boolean": "true or false",
    "a valid string": "a text",
    "a valid tuple": "a list: [1, 2] in the file, and the same as JSON in a variable",
    "a valid list": "a list: [1, 2] in the file, and the same as JSON in a variable",
}


def words_of(message: str) -> str:
    """Return a message of pydantic as a sentence about the setting.

    >>> words_of("Input should be a valid integer, unable to parse string as an integer")
    'must be a whole number'
    >>> words_of("Value error, port 0 is not allowed")
    'port 0 is not allowed'
    """
    words = message.removeprefix("Value error, ")
    if not words.startswith("Input should be "):
        return words
    wanted = words.removeprefix("Input should be ").partition(", unable to")[0]
    return f"must be {_KINDS.get(wanted, wanted)}"
