import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.secret_box import SecretBox, SecretBoxError, load_or_create_key_file, parse_keys

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
CONTEXT = b"subscription:42:1"


def a_setting(**keys: bytes) -> str:
    return ",".join(f"{key_id}:{base64.b64encode(key).decode()}" for key_id, key in keys.items())


@given(st.binary(max_size=300), st.binary(max_size=30))
def test_what_is_sealed_opens_and_does_not_show(secret: bytes, context: bytes) -> None:
    """SE-03."""
    box = SecretBox({"k": NEW}, "k")
    sealed = box.seal(secret, context)

    assert (box.open(*sealed, context), sealed.key_id, len(sealed.ciphertext)) == (secret, "k", len(secret) + 28)


def test_sealing_twice_gives_two_ciphertexts() -> None:
    box = SecretBox({"k": NEW}, "k")

    assert box.seal(b"secret", CONTEXT) != box.seal(b"secret", CONTEXT)


def test_after_rotation_old_secrets_open_and_new_ones_use_the_new_key() -> None:
    """SE-03."""
    before = SecretBox({"old": OLD}, "old").seal(b"secret", CONTEXT)
    box = SecretBox({"new": NEW, "old": OLD}, "new")

    assert (box.open(*before, CONTEXT), box.seal(b"secret", CONTEXT).key_id) == (b"secret", "new")


def test_keys_for_another_purpose_follow_a_rotation_and_show_no_key() -> None:
    """GP-04: the seals of the lake; each purpose has keys of its own, the current one first."""
    box = SecretBox({"old": OLD, "new": NEW}, "new")
    first, second = box.derived(b"one")

    assert (box.derived(b"one"), SecretBox({"old": OLD}, "old").derived(b"one")) == ((first, second), (second,))
    assert not {first, second} & {OLD, NEW, *box.derived(b"other")}


def test_a_key_with_two_ids_is_one_key_for_another_purpose() -> None:
    """GP-04: a rotation may keep the bytes. The audit joined two rows to each seal, and called a lake duplicated."""
    box = SecretBox({"2026": NEW, "k1": NEW, "old": OLD}, "2026")

    assert box.derived(b"one") == SecretBox({"new": NEW, "old": OLD}, "new").derived(b"one")


@pytest.mark.parametrize("position", [0, 12, -1])
def test_a_changed_ciphertext_does_not_open(position: int) -> None:
    box = SecretBox({"k": NEW}, "k")
    changed = bytearray(box.seal(b"secret", CONTEXT).ciphertext)
    changed[position] ^= 1

    with pytest.raises(SecretBoxError, match="does not open"):
        box.open("k", bytes(changed), CONTEXT)


@pytest.mark.parametrize(
    ("key_id", "kept_bytes", "context"),
    [("k", 34, b"subscription:43:1"), ("k", 0, CONTEXT), ("k", 5, CONTEXT), ("k", 20, CONTEXT), ("other", 34, CONTEXT)],
)
def test_a_secret_opens_only_whole_in_its_own_place_and_with_its_own_key(
    key_id: str, kept_bytes: int, context: bytes
) -> None:
    sealed = SecretBox({"k": NEW}, "k").seal(b"secret", CONTEXT)

    with pytest.raises(SecretBoxError):
        SecretBox({"k": NEW, "other": OLD}, "k").open(key_id, sealed.ciphertext[:kept_bytes], context)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(SecretBoxError, match="'lost'"):
        SecretBox({"k": NEW}, "k").open("lost", b"", CONTEXT)


def test_a_box_shows_ids_only() -> None:
    """SE-07, I11."""
    assert repr(parse_keys(a_setting(new=NEW, old=OLD))) == "SecretBox(keys=['new', 'old'], current='new')"


def test_a_setting_names_the_current_key_first() -> None:
    sealed = parse_keys(a_setting(old=OLD)).seal(b"secret", CONTEXT)
    box = parse_keys(" " + a_setting(new=NEW, old=OLD).replace(",", ", ") + "\n")

    assert (box.current, box.open(*sealed, CONTEXT)) == ("new", b"secret")


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "k",
        "k:",
        "k:!!",
        "k:é",
        ":" + base64.b64encode(NEW).decode(),
        "k k:" + base64.b64encode(NEW).decode(),
        base64.b64encode(NEW).decode(),
        a_setting(k=NEW[:31]),
        a_setting(k=NEW + b"x"),
        a_setting(k=bytes(32)),
        a_setting(k=b"changeme" * 4),
        a_setting(k=NEW) + ",",
        a_setting(k=NEW) + "," + a_setting(k=OLD),
    ],
)
def test_a_missing_short_default_or_ambiguous_key_is_refused(text: str) -> None:
    """SC-18."""
    with pytest.raises(SecretBoxError) as caught:
        parse_keys(text)

    assert base64.b64encode(NEW[:20]).decode() not in str(caught.value)


def test_a_box_needs_its_current_key() -> None:
    with pytest.raises(SecretBoxError):
        SecretBox({"k": NEW}, "other")


def test_a_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    """SC-18."""
    path = tmp_path / "state" / "secret.key"
    sealed = load_or_create_key_file(path).seal(b"secret", CONTEXT)

    assert load_or_create_key_file(path).open(*sealed, CONTEXT) == b"secret"
    assert (stat.S_IMODE(path.stat().st_mode), [entry.name for entry in path.parent.iterdir()]) == (0o600, [path.name])


def test_processes_that_start_at_once_share_one_key(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"

    with ThreadPoolExecutor(8) as threads:
        boxes = list(threads.map(load_or_create_key_file, [path] * 16))

    assert {box.current for box in boxes} == {load_or_create_key_file(path).current}


@pytest.mark.parametrize(("mode", "is_refused"), [(0o604, True), (0o602, True), (0o620, True), (0o440, False)])
def test_a_key_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int, is_refused: bool) -> None:
    """SC-18; a group may read, because that is how orchestrators mount secrets."""
    path = tmp_path / "secret.key"
    load_or_create_key_file(path)
    os.chmod(path, mode)

    try:
        load_or_create_key_file(path)
        refused = False
    except SecretBoxError as error:
        refused = "chmod 600" in str(error)
    assert refused is is_refused


@pytest.mark.parametrize("content", [b"", b"\xff\xff", b"not a key"])
def test_a_file_that_is_no_key_file_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "secret.key"
    path.touch(mode=0o600)
    path.write_bytes(content)

    with pytest.raises(SecretBoxError):
        load_or_create_key_file(path)
    assert path.read_bytes() == content


def test_a_path_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    with pytest.raises(SecretBoxError, match="cannot be used"):
        load_or_create_key_file(tmp_path)
