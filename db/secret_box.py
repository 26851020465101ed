"""Secrets at rest: subscribers' signing keys are stored only as AES-GCM ciphertext.

The keys come from the environment or from a file, never from the database. A box holds several keys for rotation. It
seals with the current key and opens with any of them. Each ciphertext is stored with its key's id.

``context`` names the owner of the secret (``subscription:42:1``). It is authenticated, not stored: a ciphertext copied
to another row does not open there.

Setting and file have one form: ``id:base64[,id:base64...]``, 32 bytes each, the current key first.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_FILE_BYTES_MAX = 64 * 1024
_FORBIDDEN_MODE = stat.S_IWGRP | stat.S_IRWXO  # a group may read: that is how orchestrators mount secrets


class SecretBoxError(Exception):
    """A key set is unusable or a ciphertext does not open; the text says why and shows no secret."""


class Sealed(NamedTuple):
    """The stored form of a secret."""

    key_id: str
    ciphertext: bytes
    """12 bytes of nonce, then AES-GCM's ciphertext and tag: 28 bytes longer than the secret."""


class SecretBox:
    """Seals and opens secrets.  The repr shows key ids only."""

    def __init__(self, keys: Mapping[str, bytes], current: str) -> None:
        for key_id, key in keys.items():
            _check_key(key_id, key)
        if current not in keys:
            raise SecretBoxError("the current key is not among the keys")
        self.current = current
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}
        self._keys = {current: keys[current], **keys}

    def seal(self, plaintext: bytes, context: bytes) -> Sealed:
        """Encrypt under the current key with a fresh random nonce."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return Sealed(self.current, nonce + self._ciphers[self.current].encrypt(nonce, plaintext, context))

    def open(self, key_id: str, ciphertext: bytes, context: bytes) -> bytes:
        """Decrypt; raise SecretBoxError for an unknown key, a changed ciphertext or another context."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise SecretBoxError(f"a stored secret needs the key {key_id[:32]!a}, which is not configured")
        try:
            return cipher.decrypt(ciphertext[:_NONCE_BYTES], ciphertext[_NONCE_BYTES:], context)
        except (InvalidTag, ValueError) as error:  # ValueError: the nonce is cut short
            raise SecretBoxError("a stored secret does not open: changed, moved, or sealed by another key") from error

    def derived(self, purpose: bytes) -> tuple[bytes, ...]:
        """Return a key of 32 bytes for another purpose from each key, the current one first. It tells nothing about its
        key, nor about the keys of other purposes. A key that has two ids counts once.
        """
        return tuple(hmac.digest(key, b"hookwire: " + purpose, "sha256") for key in dict.fromkeys(self._keys.values()))

    def __repr__(self) -> str:
        return f"SecretBox(keys={sorted(self._ciphers)}, current={self.current!r})"


def parse_keys(text: str) -> SecretBox:
    """Read ``id:base64[,id:base64...]``, the current key first.  Raises SecretBoxError."""
    keys: dict[str, bytes] = {}
    for item in text.strip().split(","):
        key_id, colon, encoded = item.strip().partition(":")
        if not colon:
            raise SecretBoxError("a key is id:base64")  # without the text, which may be the key itself
        if key_id in keys:
            raise SecretBoxError("two keys have the same id")
        try:
            keys[key_id] = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):  # ValueError: characters outside ASCII
            raise SecretBoxError("a key is id:base64") from None  # the cause would quote it
    return SecretBox(keys, next(iter(keys)))


def load_or_create_key_file(path: Path) -> SecretBox:
    """Read the key file, or create one with a random key, mode 0600. Safe when several processes start at once.

    Raise SecretBoxError for a file that other users may change, that is no key file, or that cannot be used.
    """
    try:
        if not path.exists():
            _create_key_file(path)
        return parse_keys(_read_key_file(path))
    except OSError as error:
        raise SecretBoxError(f"the key file {path} cannot be used: {error.strerror}") from error
    except UnicodeDecodeError:
        raise SecretBoxError(f"the key file {path} is not text") from None


def _check_key(key_id: str, key: bytes) -> None:
    if not _KEY_ID.fullmatch(key_id):
        raise SecretBoxError("a key's id is 1-32 characters of A-Z a-z 0-9 _ -")
    if len(key) != KEY_BYTES or len(set(key)) < 8:  # zeros, "changeme": random bytes never repeat so much
        raise SecretBoxError(f"the key {key_id} is not {KEY_BYTES} random bytes")


def _create_key_file(path: Path) -> None:
    """Write a file beside the path, then link it. So no process reads half a file, and of several processes the first
    wins.
    """
    key = secrets.token_bytes(KEY_BYTES)
    line = f"k{hashlib.sha256(key).hexdigest()[:8]}:{base64.b64encode(key).decode('ascii')}\n"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        _sync_folder(path.parent)
    finally:
        draft.unlink()


def _read_key_file(path: Path) -> str:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & _FORBIDDEN_MODE:
            raise SecretBoxError(f"the key file {path} is open to others; run: chmod 600 {path}")
        return file.read(_FILE_BYTES_MAX).decode("ascii")


def _sync_folder(folder: Path) -> None:
    """Make the new name durable: a secret is lost if a crash loses its key."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
