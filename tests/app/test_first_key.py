"""The first API key by a setting: made once, hashed, never again after its end, and refused when it is weak."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from app.assembly.first_key import make_first_key
from app.checks.keys import key_checks
from app.settings.settings import Settings, SettingsRefused, load_settings
from db.pool import PoolOptions, open_database
from hub.keys import Keys, NewKey, new_text, public_id_of, weakness

KEY = "hwk_5b0c7f1e9a2d_c3f1a0e47b9d2865f0b1c94e7da3826517fe90cb"
OTHER = "hwk_9d3e1c7a5b20_7e0bd418c29fa6531d84e7b2509f6ac13e7d80b5"


async def started(url: str, *texts: str) -> list[tuple[str, str]]:
    """Start with each text; return what the log says of each."""
    database = await open_database(PoolOptions(url, connections_min=1))
    with capture_logs() as lines:
        for text in texts:
            await make_first_key(Settings(bootstrap_key=SecretStr(text)), database)
    await database.aclose()
    return [(line["event"], line["key"]) for line in lines]


async def test_the_first_key_is_made_once_and_opens_everything(database_url: str) -> None:
    """GU-13: no second command is needed. A second start with it is silent, and another text makes no second key."""
    said = await started(database_url, KEY, KEY, OTHER)
    database = await open_database(PoolOptions(database_url, connections_min=1))
    grant, other = await Keys(database).find(KEY), await Keys(database).find(OTHER)
    rows = await Keys(database).list(0, 10)
    await database.aclose()

    assert said == [("first_key_made", public_id_of(KEY)), ("first_key_not_made", public_id_of(OTHER))]
    assert (grant and grant.scopes, other, len(rows)) == (frozenset({"admin"}), None, 1)


async def test_a_first_key_that_was_revoked_does_not_come_back(database_url: str) -> None:
    await started(database_url, KEY)
    database = await open_database(PoolOptions(database_url, connections_min=1))
    await Keys(database).revoke(public_id_of(KEY))
    await database.aclose()

    assert await started(database_url, KEY) == [("first_key_not_made", public_id_of(KEY))]


async def test_beside_a_key_that_was_made_by_hand_none_is_made(database_url: str) -> None:
    database = await open_database(PoolOptions(database_url, connections_min=1))
    await Keys(database).create(NewKey("ops", ["admin"]))
    await database.aclose()

    assert await started(database_url, KEY) == [("first_key_not_made", public_id_of(KEY))]


async def test_a_check_before_the_first_start_knows_that_it_makes_the_key(database_url: str) -> None:
    """`hookwire doctor`, before the first start and after the key was revoked."""
    settings = Settings(profile="production", bootstrap_key=SecretStr(KEY))
    before = await key_checks(settings, PoolOptions(database_url))
    await started(database_url, KEY)
    database = await open_database(PoolOptions(database_url, connections_min=1))
    await Keys(database).revoke(public_id_of(KEY))
    await database.aclose()
    after = await key_checks(settings, PoolOptions(database_url))

    assert [check.level for check in (*before, *after)] == ["ok", "refuse"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("secret", "must be hwk_, 12 and 40 hexadecimal digits; make one with `hookwire keys generate`"),
        (KEY.upper(), "must be hwk_, 12 and 40 hexadecimal digits; make one with `hookwire keys generate`"),
        ("hwk_000000000000_" + "0" * 40, "is too easy to guess; make one with `hookwire keys generate`"),
        ("hwk_5b0c7f1e9a2d_" + "deadbeef" * 5, "is too easy to guess; make one with `hookwire keys generate`"),
        (
            "hwk_5b0c7f1e9a2d_" + "c0ffee123456" * 3 + "c0ff",
            "is too easy to guess; make one with `hookwire keys generate`",
        ),
        ("hwk_5b0c7f1e9a2d_" + "0a1b2c3d4e" * 4, "is too easy to guess; make one with `hookwire keys generate`"),
        (
            "hwk_5b0c7f1e9a2d_0123456789abcdef0123456789abcdef01234567",
            "is too easy to guess; make one with `hookwire keys generate`",
        ),
        (KEY, ""),
    ],
)
def test_a_text_that_can_be_guessed_is_no_key(text: str, fault: str) -> None:
    assert weakness(text) == fault


def test_what_is_generated_is_strong_and_new() -> None:
    texts = {new_text() for _ in range(200)}

    assert (len(texts), {weakness(text) for text in texts}) == (200, {""})


def test_a_weak_key_is_refused_by_its_setting_without_its_text() -> None:
    with pytest.raises(SettingsRefused) as refused:
        load_settings({"HOOKWIRE_BOOTSTRAP_KEY": "changeme-now"})

    assert "HOOKWIRE_BOOTSTRAP_KEY: must be hwk_" in str(refused.value)
    assert "changeme" not in str(refused.value)


def test_the_key_may_stand_in_a_file(tmp_path: Path) -> None:
    """A mounted secret; editors end a line."""
    file = tmp_path / "key"
    file.write_text(KEY + "\n")

    assert Settings(bootstrap_key_file=file).first_key() == KEY


@pytest.mark.parametrize(("content", "fault"), [("", "must be hwk_"), (None, "No such file"), ("x" * 5_000, "must be")])
def test_a_file_without_a_key_is_refused_by_its_name(tmp_path: Path, content: str | None, fault: str) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsRefused, match=fault) as refused:
        Settings(bootstrap_key_file=file).first_key()

    assert str(file) in str(refused.value)
