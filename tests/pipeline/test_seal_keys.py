"""The keys of the lake's seals, where the archive runs under another account than the hub or has none of its keys."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from app.cli.main import application
from app.cli.pipeline.auditing import seals
from app.cli.pipeline.auditing.seals import keys_here
from app.settings.settings import SettingsRefused, load_settings
from db.secret_box import SecretBoxError, load_or_create_key_file
from pipeline.audit.seal import SealKeys
from pipeline.lake import Table
from pipeline.storage import LakeStorage

SETTING = "k1:" + base64.b64encode(bytes(range(32))).decode()


def given(monkeypatch: pytest.MonkeyPatch, folder: Path, keys: str | None = None) -> None:
    monkeypatch.setenv("HOOKWIRE_DATA_DIR", str(folder))
    monkeypatch.delenv("HOOKWIRE_SECRET_KEYS", raising=False)
    if keys is not None:
        monkeypatch.setenv("HOOKWIRE_SECRET_KEYS", keys)


def test_keys_are_those_of_the_setting_or_of_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given(monkeypatch, tmp_path, SETTING)
    of_setting = keys_here(load_settings()).keys
    given(monkeypatch, tmp_path)
    absent = keys_here(load_settings()).keys
    box = load_or_create_key_file(tmp_path / "secret.keys")
    assert (len(of_setting), absent) == (1, ())
    assert keys_here(load_settings()).keys == box.derived(b"seals of the lake")


@pytest.mark.parametrize("case", ["a file of others", "a folder that cannot be looked into"])
def test_a_key_file_that_this_account_cannot_read_is_told_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    """An archive with the URL of the database had never looked there. It ended with exit code 2, or a traceback."""
    folder = tmp_path
    if case == "a file of others":
        load_or_create_key_file(tmp_path / "secret.keys")
        (tmp_path / "secret.keys").chmod(0o604)
    else:  # Root may look into each folder, so the name is one that no folder can have.
        folder = tmp_path / ("x" * 300)
    given(monkeypatch, tmp_path)
    assert keys_here(load_settings().model_copy(update={"data_dir": folder})).keys == ()
    assert f"hookwire: the key file {folder / 'secret.keys'} " in capsys.readouterr().err


def test_a_setting_that_is_no_key_set_is_refused_except_where_nothing_is_sealed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given(monkeypatch, tmp_path, "no key")
    with pytest.raises(SecretBoxError):
        keys_here(load_settings())
    # The plan of the next batch needs Kafka, and no key.
    words = ["pipeline", "archive", "--dry-run", "--lake", str(tmp_path / "lake")]
    with pytest.raises(SettingsRefused, match="HOOKWIRE_KAFKA_BOOTSTRAP_SERVERS"):
        CliRunner().invoke(application("pipeline"), words, catch_exceptions=False)


def test_a_file_that_cannot_be_read_does_not_end_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GP-04: the time of the first seals is read from the whole lake, and Kafka's retention waits for nobody."""

    class Database:
        async def fetchrow(self, *_: object) -> None:
            return None

    @asynccontextmanager
    async def answering(_: object) -> AsyncIterator[Database]:
        yield Database()

    def unreadable(*_: object) -> None:
        raise PySparkException("[FAILED_READ_FILE] file:/lake/bronze/part-0.parquet: could not read footer")

    monkeypatch.setattr(seals, "answering", answering)
    monkeypatch.setattr(Table, "read", unreadable)
    lake = LakeStorage(str(tmp_path))
    assert seals.note_archived(load_settings(), lake, None, SealKeys((b"k" * 32,)))
    assert "an audit has to find out from when on the lake is sealed: file:/lake" in capsys.readouterr().err
